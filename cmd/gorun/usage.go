package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gorun/launcher/registry"
)

// rankUse is what was seen of a rank between two looks.
type rankUse struct {
	cpu       float64 // percent of one CPU, -1: not known
	output    float64 // bytes a second, -1: not known
	runs      bool
	straggler bool
	lag       time.Duration // by how much longer than the others it has printed nothing
}

func (u rankUse) percent() string {
	if u.cpu < 0 {
		return "-"
	}
	return strconv.Itoa(int(math.Round(u.cpu)))
}

func (u rankUse) rate() string {
	if u.output < 0 {
		return "-"
	}
	n := int64(math.Round(u.output))
	return size(&n)
}

// between is what ranks did between two looks; silence is how long each has printed
// nothing, nil: that is not known.
func between(from, to registry.Job, silence map[int]time.Duration) []rankUse {
	before := map[int]registry.Rank{}
	for _, r := range from.Ranks {
		before[r.Rank] = r
	}
	use := make([]rankUse, len(to.Ranks))
	quiet := make([]time.Duration, len(to.Ranks))
	for i, r := range to.Ranks {
		use[i] = rankUse{cpu: -1, output: -1, runs: r.Code == nil && r.Signal == ""}
		quiet[i] = -1
		if s, known := silence[r.Rank]; known && use[i].runs {
			quiet[i] = s
		}
		b, known := before[r.Rank]
		passed := r.At.Sub(b.At)
		if !known || b.At.IsZero() || passed <= 0 || b.PID != r.PID {
			continue
		}
		if r.CPU != nil && b.CPU != nil { // a child that was not waited for takes its time along
			use[i].cpu = max(0, 100*float64(*r.CPU-*b.CPU)/float64(passed))
		}
		if r.Output != nil && b.Output != nil {
			use[i].output = max(0, float64(*r.Output-*b.Output)/passed.Seconds())
		}
	}
	markStraggler(use, quiet)
	return use
}

// Limits of what makes a straggler.
const (
	stragglerLag = 5 * time.Second // it has printed nothing so much longer than the others
	busyRank     = 70              // percent of a CPU
	idleRank     = 30
)

// markStraggler marks the one rank that is not where the others are: it has printed
// nothing for long while all others have, or it computes while they wait for it, or it
// waits for something while they spin. Where several differ nobody is marked: then
// ranks have different work.
func markStraggler(use []rankUse, quiet []time.Duration) {
	if i := longestQuiet(use, quiet); i >= 0 {
		use[i].straggler = true
		return
	}
	var busy, idle []int
	for i, u := range use {
		switch {
		case !u.runs:
		case u.cpu < 0 || u.cpu > idleRank && u.cpu < busyRank:
			return
		case u.cpu >= busyRank:
			busy = append(busy, i)
		default:
			idle = append(idle, i)
		}
	}
	switch {
	case len(busy) == 1 && len(idle) > 1:
		use[busy[0]].straggler = true
	case len(idle) == 1 && len(busy) > 1:
		use[idle[0]].straggler = true
	}
}

// longestQuiet is the rank that has printed nothing for much longer than every other, -1
// for none. Ranks of which none was ever seen to print do not count.
func longestQuiet(use []rankUse, quiet []time.Duration) int {
	var order []int
	for i := range quiet {
		if quiet[i] >= 0 {
			order = append(order, i)
		}
	}
	if len(order) < 2 {
		return -1
	}
	slices.SortFunc(order, func(a, b int) int { return int(quiet[b] - quiet[a]) })
	first, second := order[0], order[1]
	if use[first].lag = quiet[first] - quiet[second]; use[first].lag < stragglerLag || quiet[second] > use[first].lag {
		return -1
	}
	return first
}

// silences notes when each rank was last seen to print, while somebody looks.
type silences struct {
	output map[int]int64
	since  map[int]time.Time
}

// look takes up what ranks have printed so far, and returns how long each of those that
// were seen to print has printed nothing since.
func (s *silences) look(j registry.Job) map[int]time.Duration {
	if s.output == nil {
		s.output, s.since = map[int]int64{}, map[int]time.Time{}
	}
	quiet := map[int]time.Duration{}
	for _, r := range j.Ranks {
		if r.Output == nil {
			continue
		}
		before, seen := s.output[r.Rank]
		if s.output[r.Rank] = *r.Output; seen && before != *r.Output {
			s.since[r.Rank] = j.At
		}
		if at, printed := s.since[r.Rank]; printed {
			quiet[r.Rank] = j.At.Sub(at)
		}
	}
	return quiet
}

// lagText is by how much a straggler is behind.
func (u rankUse) lagText() string {
	if u.lag < time.Second {
		return ""
	}
	return fmt.Sprintf("+%.0f s", u.lag.Seconds())
}
