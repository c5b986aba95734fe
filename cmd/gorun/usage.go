package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gorun/launcher/registry"
)

// rankUsage is what a rank used between two observations.
type rankUsage struct {
	cpu       float64 // percent of one CPU, -1: unknown
	output    float64 // bytes per second, -1: unknown
	running   bool
	straggler bool
	lag       time.Duration // how much longer than any other rank it has printed nothing
}

func (u rankUsage) cpuText() string {
	if u.cpu < 0 {
		return "-"
	}
	return strconv.Itoa(int(math.Round(u.cpu)))
}

func (u rankUsage) outputText() string {
	if u.output < 0 {
		return "-"
	}
	n := int64(math.Round(u.output))
	return sizeText(&n)
}

func (u rankUsage) lagText() string {
	if u.lag < time.Second {
		return ""
	}
	return fmt.Sprintf("+%.0f s", u.lag.Seconds())
}

// usageBetween compares two observations of a job. silence has how long ranks have printed nothing, as far as known.
func usageBetween(before, after registry.Job, silence map[int]time.Duration) []rankUsage {
	previous := map[int]registry.Rank{}
	for _, r := range before.Ranks {
		previous[r.Rank] = r
	}
	usage := make([]rankUsage, len(after.Ranks))
	silences := make([]time.Duration, len(after.Ranks))
	for i, r := range after.Ranks {
		usage[i] = rankUsage{cpu: -1, output: -1, running: r.Code == nil && r.Signal == ""}
		silences[i] = -1
		if s, known := silence[r.Rank]; known && usage[i].running {
			silences[i] = s
		}
		p, known := previous[r.Rank]
		elapsed := r.At.Sub(p.At)
		if !known || p.At.IsZero() || elapsed <= 0 || p.PID != r.PID {
			continue
		}
		if r.CPU != nil && p.CPU != nil { // CPU time decreases when a child ends that the rank does not wait for
			usage[i].cpu = max(0, 100*(*r.CPU-*p.CPU)/elapsed.Seconds())
		}
		if r.Output != nil && p.Output != nil {
			usage[i].output = max(0, float64(*r.Output-*p.Output)/elapsed.Seconds())
		}
	}
	markStraggler(usage, silences)
	return usage
}

// Thresholds for stragglers.
const (
	stragglerLag = 5 * time.Second // of silence, beyond that of any other rank
	busyCPU      = 70              // percent of a CPU
	idleCPU      = 30
)

// markStraggler marks the one rank that differs from the others: it has been silent for long while the others print, or
// it computes while they wait for it, or it waits while they spin. If several differ, ranks have different work, and
// none is marked. A negative silence is unknown.
func markStraggler(usage []rankUsage, silences []time.Duration) {
	if i := longestSilence(usage, silences); i >= 0 {
		usage[i].straggler = true
		return
	}
	var busy, idle []int
	for i, u := range usage {
		switch {
		case !u.running:
		case u.cpu < 0 || u.cpu > idleCPU && u.cpu < busyCPU:
			return
		case u.cpu >= busyCPU:
			busy = append(busy, i)
		default:
			idle = append(idle, i)
		}
	}
	switch {
	case len(busy) == 1 && len(idle) > 1:
		usage[busy[0]].straggler = true
	case len(idle) == 1 && len(busy) > 1:
		usage[idle[0]].straggler = true
	}
}

// longestSilence returns the rank that has been silent for much longer than any other, or -1. Ranks that never printed
// do not count.
func longestSilence(usage []rankUsage, silences []time.Duration) int {
	var order []int
	for i, s := range silences {
		if s >= 0 {
			order = append(order, i)
		}
	}
	if len(order) < 2 {
		return -1
	}
	slices.SortFunc(order, func(a, b int) int { return int(silences[b] - silences[a]) })
	first, second := order[0], order[1]
	lag := silences[first] - silences[second]
	usage[first].lag = lag
	if lag < stragglerLag || silences[second] > lag {
		return -1
	}
	return first
}

// outputClock records when each rank's output was last seen to grow.
type outputClock struct {
	output map[int]int64
	last   map[int]time.Time
}

// observe returns how long each rank that was seen to print has been silent.
func (c *outputClock) observe(j registry.Job) map[int]time.Duration {
	if c.output == nil {
		c.output, c.last = map[int]int64{}, map[int]time.Time{}
	}
	silence := map[int]time.Duration{}
	for _, r := range j.Ranks {
		if r.Output == nil {
			continue
		}
		before, seen := c.output[r.Rank]
		if c.output[r.Rank] = *r.Output; seen && before != *r.Output {
			c.last[r.Rank] = j.At
		}
		if at, printed := c.last[r.Rank]; printed {
			silence[r.Rank] = j.At.Sub(at)
		}
	}
	return silence
}
