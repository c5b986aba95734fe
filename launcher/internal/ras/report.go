package ras

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/printable"
)

// View sets how findings name ranks.
type View struct {
	// World is the job's world size. A communicator of that size is the whole job.
	World int
	// Host returns the node of a rank of the job, "" to omit it; nil omits it always.
	Host func(rank int) string
}

const maxFindings = 8

// Findings returns a few lines, the largest communicator first: the ranks that do not answer, report an error or are
// behind. If there is nothing to report, one line describes the progress of all ranks. Without a communicator it
// returns no lines.
func (s *Status) Findings(v View) (lines []string) {
	add := func(line string) {
		if line != "" && !slices.Contains(lines, line) && len(lines) < maxFindings {
			lines = append(lines, line)
		}
	}
	comms := slices.Clone(s.Communicators)
	slices.SortStableFunc(comms, func(a, b Communicator) int { return b.size() - a.size() })
	for i := range comms {
		c := &comms[i]
		add(c.unanswered(v))
		if c.Progressing { // so that differences are normal
			add(fmt.Sprintf("ranks%s still begin collectives", c.suffix(v)))
			continue
		}
		for _, line := range c.errors(v) {
			add(line)
		}
		for _, line := range c.lags(v) {
			add(line)
		}
	}
	add(processes(s.Dead, "cannot be reached any more"))
	add(processes(s.Missing, plural(len(s.Missing), "does not answer", "do not answer")))
	if len(lines) == 0 && len(comms) > 0 && !comms[0].Partial {
		add(comms[0].even(v))
	}
	return lines
}

func (c *Communicator) size() int { return max(c.Size, len(c.Ranks)) }

// unanswered lists the ranks that do not answer: "2 of 8 ranks do not answer: [3,5]".
func (c *Communicator) unanswered(v View) string {
	answered, known, dead := map[int]bool{}, map[int]int{}, 0
	for _, r := range c.Ranks {
		known[r.Rank] = r.World
		if !r.Missing {
			answered[r.Rank] = true
		}
		if r.Dead {
			dead++
		}
	}
	var missing []int
	for rank := range c.Size {
		if world, ok := known[rank]; (!ok && !c.Partial) || ok && !answered[rank] {
			if ok && world >= 0 {
				rank = world
			}
			missing = append(missing, rank)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	verb := plural(len(missing), "does not answer", "do not answer")
	if dead == len(missing) {
		verb = plural(dead, "is dead", "are dead")
	}
	slices.Sort(missing)
	return fmt.Sprintf("%d of %d ranks%s %s: [%s]", len(missing), c.Size, c.suffix(v), verb, printable.Ranges(missing))
}

// suffix names a communicator that is not the whole job.
func (c *Communicator) suffix(v View) string {
	if c.size() == v.World {
		return ""
	}
	return fmt.Sprintf(" of communicator %s", c.Hash)
}

// errors returns the errors that ranks report, grouped by message.
func (c *Communicator) errors(v View) (lines []string) {
	by := map[string][]*Rank{}
	for i := range c.Ranks {
		r := &c.Ranks[i]
		if text := r.problem(); text != "" && !r.Missing {
			by[text] = append(by[text], r)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(by)) {
		lines = append(lines, c.nameRanks(by[text], v)+" "+plural(len(by[text]), "reports", "report")+": "+text)
	}
	return lines
}

func (r *Rank) problem() string {
	switch {
	case r.Message != "":
		return r.Message
	case r.Error != 0 && r.Error != inProgress:
		return resultText(r.Error)
	case r.State == inProgress:
		return "the communicator is still being made"
	case r.State != 0:
		return "the communicator could not be made: " + resultText(r.State)
	case r.Abort:
		return "the communicator was aborted"
	case r.Destroy || r.Finalize:
		return "the communicator is being destroyed"
	}
	return ""
}

// progress is a group of ranks that have begun the same collectives.
type progress struct {
	counts map[string]uint64
	ranks  []*Rank
	number int
}

func (p *progress) total() (sum uint64) {
	for _, n := range p.counts {
		sum += n
	}
	return sum
}

// shares reports whether both groups count an operation. The text of older versions has groups that do not.
func (p *progress) shares(other *progress) bool {
	for op := range p.counts {
		if _, known := other.counts[op]; known {
			return true
		}
	}
	return false
}

// lags compares the progress of ranks with that of the largest group that shares an operation; among equal groups, with
// the one furthest ahead.
func (c *Communicator) lags(v View) (lines []string) {
	groups := c.progress()
	for _, g := range groups {
		most := groups[slices.IndexFunc(groups, g.shares)]
		if len(g.ranks) > 0 && g != most {
			lines = append(lines, c.nameRanks(g.ranks, v)+" "+difference(g, most))
		}
	}
	return lines
}

// progress groups the ranks, the largest group first.
func (c *Communicator) progress() (groups []*progress) {
	byKey := map[string]*progress{}
	group := func(counts map[string]uint64) *progress {
		key := fmt.Sprint(counts) // fmt sorts the keys
		g := byKey[key]
		if g == nil {
			g = &progress{counts: counts}
			byKey[key], groups = g, append(groups, g)
		}
		return g
	}
	for i := range c.Ranks {
		r := &c.Ranks[i]
		if r.Missing || len(r.Counts) == 0 {
			continue
		}
		g := group(r.Counts)
		g.ranks, g.number = append(g.ranks, r), g.number+1
	}
	for _, t := range c.Tallies {
		group(map[string]uint64{t.Op: t.Count}).number += t.Ranks
	}
	slices.SortStableFunc(groups, func(a, b *progress) int {
		return cmp.Or(b.number-a.number, cmp.Compare(b.total(), a.total()))
	})
	return groups
}

// difference describes how a group differs: "is behind: 41 AllReduce, the others 42".
func difference(g, most *progress) string {
	var own, others []string
	less, more := 0, 0
	for _, op := range slices.Sorted(maps.Keys(g.counts)) {
		a, b := g.counts[op], most.counts[op]
		if _, known := most.counts[op]; !known || a == b {
			continue
		}
		if a < b {
			less++
		} else {
			more++
		}
		own, others = append(own, fmt.Sprintf("%d %s", a, op)), append(others, strconv.FormatUint(b, 10))
	}
	verb := plural(len(g.ranks), "is ", "are ")
	switch {
	case more == 0:
		verb += "behind"
	case less == 0:
		verb += "ahead"
	default:
		verb = "called other collectives"
	}
	return verb + ": " + strings.Join(own, " and ") + ", the others " + strings.Join(others, " and ")
}

// even describes the progress of ranks that have all begun the same collectives.
func (c *Communicator) even(v View) string {
	if len(c.Ranks) == 0 {
		return ""
	}
	var ops []string
	for _, op := range slices.Sorted(maps.Keys(c.Ranks[0].Counts)) {
		if n := c.Ranks[0].Counts[op]; n > 0 {
			ops = append(ops, fmt.Sprintf("%d %s", n, op))
		}
	}
	if len(ops) == 0 {
		return fmt.Sprintf("none of the %d ranks%s has begun a collective", len(c.Ranks), c.suffix(v))
	}
	return fmt.Sprintf("all %d ranks%s are equally far: %s", len(c.Ranks), c.suffix(v), strings.Join(ops, ", "))
}

// nameRanks formats ranks: "rank 3 (node2)", "ranks [3,5-7]".
func (c *Communicator) nameRanks(ranks []*Rank, v View) string {
	var numbers []int
	own := false
	for _, r := range ranks {
		n := r.World
		if n < 0 {
			n = r.Rank
			own = own || c.size() != v.World
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	where, noun := "", "rank"
	if own { // ranks of the communicator, not of the job
		where, noun = c.suffix(v), "NCCL's rank"
	}
	if len(numbers) > 1 {
		return noun + "s [" + printable.Ranges(slices.Compact(numbers)) + "]" + where
	}
	if host := v.host(ranks[0]); host != "" {
		where += " (" + host + ")"
	}
	return noun + " " + strconv.Itoa(numbers[0]) + where
}

// host returns the node of a rank; without a world rank, its process.
func (v View) host(r *Rank) string {
	switch {
	case r.World >= 0 && v.Host != nil:
		return v.Host(r.World)
	case r.World < 0 && r.PID != 0:
		return fmt.Sprintf("pid %d on %s", r.PID, r.Host)
	}
	return ""
}

func processes(list []Process, what string) string {
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, p := range list[:min(len(list), 4)] {
		names = append(names, fmt.Sprintf("pid %d on %s", p.PID, p.Host))
	}
	if rest := len(list) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	return fmt.Sprintf("%d %s %s: %s", len(list), plural(len(list), "process", "processes"), what,
		strings.Join(names, ", "))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
