package bench

import (
	"fmt"
	"slices"
	"time"
)

// Peer is one command that takes part in a comparison.
type Peer struct {
	Name    string
	Argv    []string // the first word is a path
	Environ []string
	Runs    int           // how often it runs, spread evenly over the rounds; 0 is in every round
	Limit   time.Duration // a run that lasts longer is cut off, counted and left out; 0 is a minute
}

// Series is what a peer's runs gave. Only good runs are in Walls.
type Series struct {
	Name   string
	Walls  []time.Duration // sorted
	Cut    int             // runs past their limit
	Failed int             // runs with another status than 0
}

// Min and Median are 0 where no run was good.
func (s Series) Min() time.Duration {
	if len(s.Walls) == 0 {
		return 0
	}
	return s.Walls[0]
}

// Median of the good runs.
func (s Series) Median() time.Duration {
	if len(s.Walls) == 0 {
		return 0
	}
	return s.Walls[len(s.Walls)/2]
}

// Interleave runs all peers in turn for the given number of rounds, each round beginning with another one, after one round that
// only warms caches.
func Interleave(rounds int, peers []Peer) ([]Series, error) {
	all := make([]Series, len(peers))
	for round := -1; round < rounds; round++ {
		for turn := range peers {
			at := (turn + max(round, 0)) % len(peers)
			peer := peers[at]
			if !peer.takesPart(round, rounds) {
				continue
			}
			sample, err := Time(peer.Argv, peer.Environ, peer.limit())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", peer.Name, err)
			}
			if round >= 0 {
				all[at].add(sample)
			}
		}
	}
	for at := range all {
		all[at].Name = peers[at].Name
		slices.Sort(all[at].Walls)
	}
	return all, nil
}

// takesPart spreads a peer's runs over the rounds. A peer with few runs is a slow one: it needs no warming.
func (p Peer) takesPart(round, rounds int) bool {
	if p.Runs == 0 || p.Runs >= rounds {
		return true
	}
	return round >= 0 && (round+1)*p.Runs/rounds != round*p.Runs/rounds
}

func (p Peer) limit() time.Duration {
	if p.Limit == 0 {
		return time.Minute
	}
	return p.Limit
}

func (s *Series) add(sample Sample) {
	switch {
	case sample.Cut:
		s.Cut++
	case sample.Status != 0:
		s.Failed++
	default:
		s.Walls = append(s.Walls, sample.Wall)
	}
}
