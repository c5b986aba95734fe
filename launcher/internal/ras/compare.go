package ras

import (
	"cmp"
	"maps"
	"slices"
)

// Compare marks communicators as Progressing in which a rank has begun a collective since an earlier status. The text
// of older versions does not show it.
func (s *Status) Compare(before *Status) {
	earlier := map[string]*Communicator{}
	for i := range before.Communicators {
		earlier[before.Communicators[i].Hash] = &before.Communicators[i]
	}
	for i := range s.Communicators {
		c := &s.Communicators[i]
		if b := earlier[c.Hash]; b != nil && !c.Partial && !b.Partial {
			c.Progressing = c.progressedSince(b)
		}
	}
}

func (c *Communicator) progressedSince(before *Communicator) bool {
	counts := map[int]map[string]uint64{}
	for _, r := range before.Ranks {
		counts[r.Rank] = r.Counts
	}
	return slices.ContainsFunc(c.Ranks, func(r Rank) bool {
		known, ok := counts[r.Rank]
		return ok && !r.Missing && !maps.Equal(known, r.Counts)
	})
}

// AssignWorldRanks sets Rank.World where it is unknown. world returns -1 for ranks that it does not know. found reports
// whether any rank has a world rank.
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

// DropUnassigned removes the ranks without a world rank.
func (s *Status) DropUnassigned() {
	for i := range s.Communicators {
		c := &s.Communicators[i]
		c.Ranks = slices.DeleteFunc(c.Ranks, func(r Rank) bool { return r.World < 0 })
	}
}

// Merge combines the statuses that several processes of a job returned. Entries of one rank with a world rank take
// precedence, then the first.
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

// Waiting returns the ranks of the job that have begun collectives that others of their communicator have not, and
// whether any communicator is progressing.
func (s *Status) Waiting() (ranks map[int]bool, progressing bool) {
	ranks = map[int]bool{}
	for i := range s.Communicators {
		c := &s.Communicators[i]
		progressing = progressing || c.Progressing
		groups := c.progress()
		if len(groups) == 0 {
			continue
		}
		least := slices.MinFunc(groups, func(a, b *progress) int { return cmp.Compare(a.total(), b.total()) }).total()
		for _, g := range groups {
			for _, r := range g.ranks {
				if r.World >= 0 && g.total() > least {
					ranks[r.World] = true
				}
			}
		}
	}
	return ranks, progressing
}
