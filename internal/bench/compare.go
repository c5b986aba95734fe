package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// peer is one command that takes part in a comparison. The first of a comparison is gorun.
type peer struct {
	name    string
	argv    []string      // its first word is a path; "": the machine lacks it
	environ []string      // in addition to this process's
	runs    int           // how often it runs, spread evenly over the rounds; 0 is in every round
	limit   time.Duration // a run that lasts longer is cut off, counted and left out; 0 is a minute
	goal    goal          // gorun's beside it
}

// goal is what gorun should reach beside a peer: at most ratio times its time, or at most that much more. The zero
// value is no goal.
type goal struct {
	ratio float64
	above time.Duration
}

func (g goal) String() string {
	switch {
	case g.above > 0:
		return "≤ +" + millis(g.above) + " ms"
	case g.ratio > 0:
		return fmt.Sprintf("≤ %g", g.ratio)
	}
	return ""
}

func (g goal) judge(ours, theirs series) string {
	switch {
	case g == goal{}:
		return ""
	case len(ours.walls) == 0 || len(theirs.walls) == 0:
		return noFigure
	case g.above > 0:
		return verdict(ours.min() <= theirs.min()+g.above, ours.median() <= theirs.median()+g.above)
	}
	reached := func(a, b time.Duration) bool { return float64(a) <= g.ratio*float64(b) }
	return verdict(reached(ours.min(), theirs.min()), reached(ours.median(), theirs.median()))
}

// series is what a peer's runs gave. Only good runs are in walls.
type series struct {
	walls  []time.Duration // sorted
	cut    int             // runs past their limit
	failed int             // runs with another status than 0
}

// min and median are 0 where no run was good.
func (s series) min() time.Duration {
	if len(s.walls) == 0 {
		return 0
	}
	return s.walls[0]
}

func (s series) median() time.Duration {
	if len(s.walls) == 0 {
		return 0
	}
	return s.walls[len(s.walls)/2]
}

// interleave runs all peers in turn for the given number of rounds, each round beginning with another one, after one
// round that only warms caches. Before each run prepare, if it is not nil, is told whose it is.
func interleave(rounds int, peers []peer, prepare func(peer) error) ([]series, error) {
	all := make([]series, len(peers))
	for round := -1; round < rounds; round++ {
		for turn := range peers {
			i := (turn + max(round, 0)) % len(peers)
			p := peers[i]
			if !p.takesPart(round, rounds) {
				continue
			}
			if prepare != nil {
				if err := prepare(p); err != nil {
					return nil, err
				}
			}
			limit := p.limit
			if limit == 0 {
				limit = time.Minute
			}
			one, err := timed(p.argv, append(os.Environ(), p.environ...), limit)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s: %w", p.name, err)
			case round < 0:
			case one.cut:
				all[i].cut++
			case one.status != 0:
				all[i].failed++
			default:
				all[i].walls = append(all[i].walls, one.wall)
			}
		}
	}
	for i := range all {
		slices.Sort(all[i].walls)
	}
	return all, nil
}

// takesPart spreads a peer's runs over the rounds. A peer with few runs is a slow one: it needs no warming.
func (p peer) takesPart(round, rounds int) bool {
	if p.runs == 0 || p.runs >= rounds {
		return true
	}
	return round >= 0 && (round+1)*p.runs/rounds != round*p.runs/rounds
}

// comparisons begins a table for compare.
func (b *bench) comparisons(title string) *report {
	r := b.table(title, "what", "peer", "runs", "min ms", "median ms", "gorun/peer min", "median", "target", "verdict")
	for _, name := range b.missing() {
		r.note("not installed here, so not compared: %s", name)
	}
	return r
}

// compare runs gorun, the first of the peers, and those of the others that are here and wanted, and writes a row each.
func (b *bench) compare(r *report, what string, rounds int, prepare func(peer) error, peers ...peer) ([]series, error) {
	peers = slices.DeleteFunc(slices.Clone(peers), func(p peer) bool {
		return p.argv[0] == "" || p.name != peers[0].name && !listed(b.with, p.name)
	})
	all, err := interleave(b.count(rounds), peers, prepare)
	if err != nil {
		return nil, err
	}
	ours := all[0]
	for i, p := range peers {
		s, against := all[i], [2]string{}
		if i > 0 {
			against = [2]string{ratio(ours.min(), s.min()), ratio(ours.median(), s.median())}
		}
		r.row(what, p.name, len(s.walls), millis(s.min()), millis(s.median()), against[0], against[1],
			p.goal, p.goal.judge(ours, s))
		if s.cut+s.failed > 0 {
			r.note("%s, %s: %d runs hung and were cut off, %d failed; both are left out", what, p.name, s.cut, s.failed)
		}
	}
	return all, nil
}
