package main

import (
	"fmt"

	"gorun/internal/bench"
)

// Sizes between which the targets change.
const (
	kib = 1 << 10
	mib = 1 << 20
)

// goal is comm's time as a multiple of the best rival's: 0 where there is none.
type goal struct{ min, median float64 }

// goalOf says what a row has to reach.
func goalOf(r *row, shared bool) goal {
	reduces := r.Operation == "allreduce" || r.Operation == "reducescatter"
	switch {
	case r.Stranger:
		return goal{1, 1}
	case r.Ranks > 2:
		return goal{0.9, 1.2}
	case shared && r.Bytes >= 64*kib:
		return goal{0.2, 0.2}
	case reduces && r.Bytes >= 16*mib:
		return goal{0.3, 0.3}
	case reduces && r.Bytes >= 64*kib && r.Bytes <= mib:
		return goal{0.67, 0.67}
	case (r.Operation == "allgather" || r.Operation == "alltoall") && r.Bytes == mib:
		return goal{1.1, 1.1}
	}
	return goal{1, 1}
}

func (g goal) String() string {
	if g.min == g.median {
		return fmt.Sprintf("≤ %g", g.min)
	}
	return fmt.Sprintf("≤ %g, %g", g.min, g.median)
}

// judge compares figures of ours with the best rival's.
func (g goal) judge(r *row, f *figures) bench.Verdict {
	if r.best((*figures).min) == 0 {
		return bench.NoFigure
	}
	return bench.Judge(f.min() <= g.min*r.best((*figures).min), f.median() <= g.median*r.best((*figures).median))
}

// collectivesTable has a line for each row, and one more where comm ran on allocated memory.
func collectivesTable(rows []*row) *bench.Report {
	table := bench.NewReport("collectives of float32, µs a call: minimum / median", "ranks", "operation", "bytes", "comm", "Open MPI", "MPICH", "Gloo", "comm/best min", "median", "target", "verdict", "")
	met, all := 0, 0
	for _, r := range rows {
		for _, name := range []string{ours, allocated} {
			f := r.Figures[name]
			if f == nil {
				continue
			}
			g := goalOf(r, name == allocated)
			verdict := g.judge(r, f)
			if verdict == bench.OK {
				met++
			}
			all++
			table.Row(fmt.Sprint(r.Ranks), r.title(name), fmt.Sprint(r.Bytes), pair(f), pair(r.Figures[openMPI]), pair(r.Figures[mpich]), pair(r.Figures[gloo]),
				ratio(f.min(), r.best((*figures).min)), ratio(f.median(), r.best((*figures).median)), g.String(), string(verdict), r.remark())
		}
	}
	table.Note("%d of %d lines reach their target", met, all)
	return table
}

func (r *row) title(name string) string {
	title := r.Operation
	if name == allocated {
		title += ", allocated"
	}
	if r.Stranger {
		title += ", a stranger on one CPU"
	}
	return title
}

// remark marks rows of which few batches ran while the machine was as fast as it can be.
func (r *row) remark() string {
	all := len(r.Figures[ours].Samples)
	if r.fast() < enough(all/2) {
		return fmt.Sprintf("slow machine: %d of %d batches count", r.fast(), all)
	}
	return ""
}

// otherTable has the targets that are no comparison with the best rival.
func otherTable(rows []*row) *bench.Report {
	table := bench.NewReport("other targets", "ranks", "operation", "bytes", "what", "minimum", "median", "target", "verdict")
	for _, r := range rows {
		if r.Stranger {
			continue
		}
		add := func(what string, least, middle, limit float64, format string) {
			if least != 0 {
				verdict := bench.Judge(least <= limit, middle <= limit)
				table.Row(fmt.Sprint(r.Ranks), r.Operation, fmt.Sprint(r.Bytes), what, fmt.Sprintf(format, least), fmt.Sprintf(format, middle), fmt.Sprintf("≤ "+format, limit), string(verdict))
			}
		}
		f := r.Figures[ours]
		if r.Ranks == 2 && (r.Operation == "barrier" || r.Operation == "allreduce" && r.Bytes == 8) {
			add("µs a call from Go", f.min(), f.median(), 0.2, "%.3f")
			if e := r.Figures[engine]; e != nil {
				add("ns that Go adds to the C function", positive(f.min()-e.min())*1e3, positive(f.median()-e.median())*1e3, 100, "%.0f")
			}
			add("allocations a call", positive(f.Allocations), positive(f.Allocations), 0.01, "%.4f")
		}
		if g := r.Figures[gloo]; g != nil && r.Ranks == 2 && r.Bytes <= 4*kib {
			add("comm : Gloo", f.min()/g.min(), f.median()/g.median(), 0.01, "%.4f")
		} else if g != nil && r.Ranks == 2 && r.Bytes == 64*mib {
			add("comm : Gloo", f.min()/g.min(), f.median()/g.median(), 0.25, "%.2f")
		}
	}
	return table
}

// positive keeps a difference that noise made negative, or nothing, in the table.
func positive(v float64) float64 { return max(v, 1e-9) }

func pair(f *figures) string {
	if f == nil {
		return "-"
	}
	return micros(f.min()) + " / " + micros(f.median())
}

// micros prints as many digits as carry meaning.
func micros(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}
