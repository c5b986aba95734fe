package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"
)

// peer is a command in a comparison. The first peer is gorun.
type peer struct {
	name    string
	argv    []string      // the program is a path; "" means not installed
	environ []string      // in addition to this process's
	runs    int           // spread evenly over the rounds; 0: one in each round
	limit   time.Duration // a run that takes longer is killed and left out; 0: a minute
	goal    goal          // for gorun, compared with this peer
	prepare func() error  // runs before each run, not measured; may be nil
}

// series has a peer's runs, in milliseconds.
type series struct {
	samples
	cut    int // runs that were killed at their limit
	failed int // runs with a status other than 0
}

// interleave runs the peers in turn, for the given number of rounds at most. Each round starts with another peer; a
// first one only warms up caches.
func (b *bench) interleave(rounds int, peers []peer) ([]series, error) {
	all, more := make([]series, len(peers)), b.nextRow(rounds)
	rounds = b.scale(rounds)
	for round := -1; more(round); round++ {
		for turn := range peers {
			i := (turn + max(round, 0)) % len(peers)
			p := peers[i]
			if !p.takesPart(round, rounds) {
				continue
			}
			if p.prepare != nil {
				if err := p.prepare(); err != nil {
					return nil, err
				}
			}
			one, err := runTimed(p.argv, append(os.Environ(), p.environ...), cmp.Or(p.limit, time.Minute))
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", p.name, err)
			case round < 0:
			case one.cut:
				all[i].cut++
			case one.status != 0:
				all[i].failed++
			default:
				all[i].samples = append(all[i].samples, millis(one.wall))
			}
		}
	}
	return all, nil
}

// takesPart spreads a peer's runs over the rounds. A peer with few runs is slow and needs no warm-up.
func (p peer) takesPart(round, rounds int) bool {
	if p.runs == 0 || p.runs >= rounds {
		return true
	}
	return round >= 0 && round*p.runs%rounds < p.runs
}

// comparisons starts a table for compare.
func (b *bench) comparisons(title string) *report {
	return b.table(title, "what", "peer", "runs", "min ms", "median ms", "gorun/peer min", "median", "target", "verdict")
}

// compare runs gorun, the first of the peers, and those others that exist and are selected. It writes a row for each.
func (b *bench) compare(r *report, what string, rounds int, peers ...peer) ([]series, error) {
	ours := peers[0].name
	peers = slices.DeleteFunc(peers, func(p peer) bool {
		if p.argv[0] == "" {
			r.note("%s: %s is not here, so not compared", what, p.name)
		}
		return p.argv[0] == "" || p.name != ours && !listed(b.with, p.name)
	})
	all, err := b.interleave(rounds, peers)
	if err != nil {
		return nil, err
	}
	first := all[0]
	for i, p := range peers {
		s, against := all[i], [2]string{}
		if i > 0 {
			against = [2]string{ratio(first.min(), s.min()), ratio(first.median(), s.median())}
		}
		r.row(what, p.name, len(s.samples), number(s.min()), number(s.median()), against[0], against[1],
			p.goal, p.goal.judge(first.samples, s.samples))
		if s.cut+s.failed > 0 {
			r.note("%s, %s: %d runs hung and were cut off, %d failed; both are left out", what, p.name, s.cut, s.failed)
		}
	}
	return all, nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
