package main

import (
	"fmt"
	"strings"

	"gorun/internal/bench"
)

// A target between hosts is comm's time as a multiple of somebody else's.
type hostGoal struct {
	against string // a peer, or best: the best of the three
	most    float64
}

const best = "the best"

// hostGoals says what a row between hosts has to reach; nothing where the issue names nothing.
func hostGoals(r *row) []hostGoal {
	switch {
	case r.Each > 1: // no collapse where ranks are more than CPUs
		return []hostGoal{{best, 2}}
	case r.Operation == "barrier" || r.Bytes <= 8:
		return []hostGoal{{mpich, 1.15}}
	case r.Bytes >= mib:
		return []hostGoal{{raw, 1.25}, {best, 1.1}} // at least 80 % of raw TCP
	}
	return nil
}

func (g hostGoal) String() string {
	if g.against == raw {
		return fmt.Sprintf("≥ %.0f %% of raw TCP", 100/g.most)
	}
	return fmt.Sprintf("≤ %g × %s", g.most, map[string]string{best: best, mpich: "MPICH"}[g.against])
}

// judge says whether the row reaches all its targets, and names those that it misses.
func judgeHosts(r *row) string {
	goals, missed := hostGoals(r), []string{}
	if len(goals) == 0 {
		return string(bench.NoTarget)
	}
	f := r.Figures[ours]
	for _, g := range goals {
		least, middle := g.other(r)
		verdict := bench.NoFigure
		if least > 0 {
			verdict = bench.Judge(f.min() <= g.most*least, f.median() <= g.most*middle)
		}
		if verdict != bench.OK {
			missed = append(missed, fmt.Sprintf("%s: %s", g, verdict))
		}
	}
	if len(missed) == 0 {
		return string(bench.OK)
	}
	return strings.Join(missed, "; ")
}

// other is the minimum and the median that comm is compared with.
func (g hostGoal) other(r *row) (least, middle float64) {
	if g.against == best {
		return r.best((*figures).min), r.best((*figures).median)
	}
	f := r.Figures[g.against]
	return f.min(), f.median()
}

// hostsTable has a line for each row between two hosts.
func hostsTable(rows []*row) *bench.Report {
	table := bench.NewReport("between two hosts (network namespaces and a veth), µs a call: minimum / median; pingpong is there and back", "ranks a host", "operation",
		"bytes", "comm", "Open MPI", "MPICH", "Gloo", "raw TCP", "comm/best min", "median", "comm/MPICH", "comm/raw", "target", "verdict", "")
	for _, r := range rows {
		f := r.Figures[ours]
		var targets []string
		for _, g := range hostGoals(r) {
			targets = append(targets, g.String())
		}
		table.Row(fmt.Sprint(r.Each), r.Operation, fmt.Sprint(r.Bytes), pair(f), pair(r.Figures[openMPI]), pair(r.Figures[mpich]), pair(r.Figures[gloo]), pair(r.Figures[raw]),
			ratio(f.min(), r.best((*figures).min)), ratio(f.median(), r.best((*figures).median)), ratio(f.min(), r.Figures[mpich].min()), ratio(f.min(), r.Figures[raw].min()),
			strings.Join(targets, ", "), judgeHosts(r), r.remark())
	}
	rawNotes(table, rows)
	return table
}

// rawNotes tells what the cable carries.
func rawNotes(table *bench.Report, rows []*row) {
	for _, r := range rows {
		f := r.Figures[raw]
		if r.Operation != "pingpong" || f == nil {
			continue
		}
		if r.Bytes <= 8 {
			table.Note("raw TCP: %d bytes there and back in %s µs", r.Bytes, pair(f))
		}
		if r.Bytes >= mib {
			table.Note("raw TCP: %d MiB at %.2f GB/s one way (median %.2f), comm %.2f (%.2f)", r.Bytes/mib, oneWay(r, f.min()), oneWay(r, f.median()),
				oneWay(r, r.Figures[ours].min()), oneWay(r, r.Figures[ours].median()))
		}
	}
}

// oneWay is the rate in GB/s of a vector that goes there and back in so many microseconds.
func oneWay(r *row, us float64) float64 { return 2 * float64(r.Bytes) / us / 1e3 }
