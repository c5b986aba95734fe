package main

import (
	"fmt"
	"slices"
	"time"

	"gorun/internal/bench"
)

// joining is how long so many ranks of a peer take from the launcher's start to the end of the slowest one's first barrier.
type joining struct {
	Ranks int             `json:"ranks"`
	Peer  string          `json:"peer"`
	Times []time.Duration `json:"times_ns"` // sorted
}

// joinRounds is how often each number of ranks is measured.
func joinRounds(ranks int) int {
	switch {
	case ranks <= 4:
		return 9
	case ranks <= 16:
		return 5
	}
	return 3
}

// measureJoining starts programs that do nothing but join, in turn.
func measureJoining(c *crew, sizes []int) (all []joining, err error) {
	for _, ranks := range sizes {
		ours, theirs := joining{Ranks: ranks, Peer: ours}, joining{Ranks: ranks, Peer: mpich}
		for range joinRounds(ranks) {
			for _, j := range []*joining{&ours, &theirs} {
				argv := c.argv(j.Peer, ranks, 0)
				if argv == nil {
					continue
				}
				s, err := startSession(c.dir, j.Peer, ranks, program{Argv: argv})
				if err != nil {
					return nil, fmt.Errorf("joining: %w", err)
				}
				s.close()
				j.Times = append(j.Times, s.joined)
			}
		}
		for _, j := range []joining{ours, theirs} {
			slices.Sort(j.Times)
			all = append(all, j)
		}
	}
	return all, nil
}

func (j joining) min() time.Duration {
	if len(j.Times) == 0 {
		return 0
	}
	return j.Times[0]
}

func (j joining) median() time.Duration {
	if len(j.Times) == 0 {
		return 0
	}
	return j.Times[len(j.Times)/2]
}

// joiningTable takes comm's and MPICH's figures in turn, as measureJoining gives them.
func joiningTable(all []joining) *bench.Report {
	const goal, limit = 0.2, 500 * time.Microsecond
	table := bench.NewReport("joining: from exec to the end of the first barrier, ms: minimum / median", "ranks", "comm", "MPICH", "comm/MPICH min", "median", "ms a rank", "target", "verdict")
	for i := 0; i+1 < len(all); i += 2 {
		comm, other := all[i], all[i+1]
		verdict := bench.NoFigure
		if other.min() > 0 {
			verdict = bench.Judge(reaches(comm.min(), other.min(), goal), reaches(comm.median(), other.median(), goal))
		}
		each := comm.min() / time.Duration(comm.Ranks)
		if each > limit {
			verdict = bench.Miss
		}
		table.Row(fmt.Sprint(comm.Ranks), bench.Millis(comm.min())+" / "+bench.Millis(comm.median()), bench.Millis(other.min())+" / "+bench.Millis(other.median()),
			bench.Ratio(comm.min(), other.min()), bench.Ratio(comm.median(), other.median()), bench.Millis(each), fmt.Sprintf("≤ %g, ≤ %s ms a rank", goal, bench.Millis(limit)), string(verdict))
	}
	return table
}

func reaches(a, b time.Duration, goal float64) bool { return float64(a) <= goal*float64(b) }
