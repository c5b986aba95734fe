package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"gorun/internal/bench"
)

// overlap is what examples/overlap found: medians in milliseconds.
type overlap struct {
	Ranks         int     `json:"ranks"`
	Elsewhere     bool    `json:"elsewhere"` // computing takes no CPU, as on a GPU
	Compute       float64 `json:"compute_ms"`
	Communication float64 `json:"communication_ms"`
	Sequence      float64 `json:"sequence_ms"`
	Overlapped    float64 `json:"overlapped_ms"`
}

// measureOverlap runs the example with each number of ranks, computing on the ranks' CPUs and elsewhere.
func measureOverlap(c *crew, sizes []int) (all []overlap, err error) {
	if len(sizes) == 0 {
		return nil, nil
	}
	example := filepath.Join(c.dir, "overlap")
	if err := step("go", "build", "-o", example, "./examples/overlap"); err != nil {
		return nil, err
	}
	for _, ranks := range sizes {
		for _, elsewhere := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			said, err := exec.CommandContext(ctx, c.gorun, "-n", strconv.Itoa(ranks), example, "-elsewhere="+strconv.FormatBool(elsewhere)).Output()
			cancel()
			if err != nil {
				return nil, fmt.Errorf("examples/overlap with %d ranks: %w", ranks, err)
			}
			one, err := parseOverlap(string(said))
			if err != nil {
				return nil, err
			}
			one.Ranks, one.Elsewhere = ranks, elsewhere
			all = append(all, one)
		}
	}
	return all, nil
}

var milliseconds = regexp.MustCompile(`(?m)^ +(compute|communication|before|after)\b.* ([0-9.]+) ms`)

// parseOverlap reads the example's figures.
func parseOverlap(said string) (o overlap, err error) {
	found := map[string]float64{}
	for _, match := range milliseconds.FindAllStringSubmatch(said, -1) {
		if found[match[1]], err = strconv.ParseFloat(match[2], 64); err != nil {
			return o, fmt.Errorf("examples/overlap: %w", err)
		}
	}
	if len(found) != 4 {
		return o, fmt.Errorf("examples/overlap said %q instead of four times", strings.TrimSpace(said))
	}
	return overlap{Compute: found["compute"], Communication: found["communication"], Sequence: found["before"], Overlapped: found["after"]}, nil
}

// bound is the least that a step can take.
func (o overlap) bound() float64 { return max(o.Compute, o.Communication) }

// free says whether a core is free for the communication: it is where the ranks compute elsewhere, or have two each.
func (o overlap) free(cpus int) bool { return o.Elsewhere && cpus >= o.Ranks || cpus >= 2*o.Ranks }

// judge: within 1.15 of the bound where a core is free, otherwise faster than the sequence.
func (o overlap) judge(cpus int) (target string, verdict bench.Verdict) {
	reached := o.Overlapped < o.Sequence
	target = "faster than the sequence"
	if o.free(cpus) {
		target, reached = "≤ 1.15 × the longer", o.Overlapped <= 1.15*o.bound()
	}
	if reached {
		return target, bench.OK
	}
	return target, bench.Miss
}

func overlapTable(all []overlap) *bench.Report {
	table := bench.NewReport("examples/overlap: gradients are reduced while others are computed, ms a step, medians", "ranks", "computing", "compute", "communication", "sequence",
		"overlapped", "overlapped/sequence", "overlapped/longer", "target", "verdict")
	for _, o := range all {
		where := "on the ranks' CPUs"
		if o.Elsewhere {
			where = "elsewhere, as on GPUs"
		}
		target, verdict := o.judge(runtime.NumCPU())
		table.Row(fmt.Sprint(o.Ranks), where, micros(o.Compute), micros(o.Communication), micros(o.Sequence), micros(o.Overlapped), ratio(o.Overlapped, o.Sequence),
			ratio(o.Overlapped, o.bound()), target, string(verdict))
	}
	return table
}
