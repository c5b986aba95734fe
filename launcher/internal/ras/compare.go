package ras

import (
	"cmp"
	"maps"
	"slices"
)

// Compare completes an answer by an earlier one: communicators in which a rank has begun another collective since are
// Progressing. Of the text of older versions nothing is learned.
func (s *Status) Compare(before *Status) {
	earlier := map[string]*Communicator{}
	for i := range before.Communicators {
		earlier[before.Communicators[i].Hash] = &before.Communicators[i]
	}
	for i := range s.Communicators {
		c := &s.Communicators[i]
		if b := earlier[c.Hash]; b != nil && !c.Partial && !b.Partial {
			c.Progressing = c.movedSince(b)
		}
	}
}

func (c *Communicator) movedSince(before *Communicator) bool {
	counts := map[int]map[string]uint64{}
	for _, r := range before.Ranks {
		counts[r.Rank] = r.Counts
	}
	return slices.ContainsFunc(c.Ranks, func(r Rank) bool {
		known, ok := counts[r.Rank]
		return ok && !r.Missing && !maps.Equal(known, r.Counts)
	})
}

// Place sets the numbers in the job of ranks that have none yet; world returns -1 for those that it does not know.
func (s *Status) AssignWorldRanks(world func(r *Rank) int) (found bool) {
	for i := range s.Communicators {
		for k := range s.Communicators[i].Ranks {
			r := &s.Communicators[i].Ranks[k]
			if r.World < 0 {
				r.World = world(r)
			}
			found = found || r.World >= 0
		}
	}
	return found
}

// Placed leaves out the ranks that have no number in the job.
func (s *Status) DropUnassigned() {
	for i := range s.Communicators {
		c := &s.Communicators[i]
		c.Ranks = slices.DeleteFunc(c.Ranks, func(r Rank) bool { return r.World < 0 })
	}
}

// Merge joins what several processes of a job answered. Of one rank those who know its number in the job count, then
// the first.
func Merge(answers []Status) (all Status) {
	place := map[string]int{}
	for _, s := range answers {
		all.Version = cmp.Or(all.Version, s.Version)
		all.Missing, all.Dead = union(all.Missing, s.Missing), union(all.Dead, s.Dead)
		for _, c := range s.Communicators {
			i, known := place[c.Hash]
			if !known {
				place[c.Hash] = len(all.Communicators)
				c.Ranks = slices.Clone(c.Ranks)
				all.Communicators = append(all.Communicators, c)
				continue
			}
			all.Communicators[i].merge(&c)
		}
	}
	for i := range all.Communicators {
		slices.SortFunc(all.Communicators[i].Ranks, func(a, b Rank) int { return a.Rank - b.Rank })
	}
	return all
}

func (c *Communicator) merge(other *Communicator) {
	c.Size, c.Progressing = max(c.Size, other.Size), c.Progressing || other.Progressing
	if len(c.Tallies) == 0 {
		c.Tallies = other.Tallies
	}
	place := make(map[int]int, len(c.Ranks))
	for i, r := range c.Ranks {
		place[r.Rank] = i
	}
	for _, r := range other.Ranks {
		i, known := place[r.Rank]
		switch {
		case !known:
			place[r.Rank] = len(c.Ranks)
			c.Ranks = append(c.Ranks, r)
		case c.Ranks[i].World < 0 && r.World >= 0, c.Ranks[i].Missing && !r.Missing:
			c.Ranks[i] = r
		}
	}
}

func union(a, b []Process) []Process {
	known := make(map[Process]bool, len(a)+len(b))
	return slices.DeleteFunc(slices.Concat(a, b), func(p Process) bool {
		before := known[p]
		known[p] = true
		return before
	})
}
