package main

import (
	"fmt"
	"slices"

	"gorun/internal/bench"
)

// goals are what gorun should reach; 0 is no goal.
type goals struct {
	ratio float64 // of gorun's figure to libuv's: at least, where more is better, else at most
	cpu   float64 // of the CPU time of an operation: at most
	most  float64 // gorun's own figure: at most
}

func newReport() *bench.Report {
	report := bench.NewReport("store: gorun beside PyTorch's TCPStore with libuv",
		"what", "unit", "gorun best", "median", "libuv best", "median", "gorun/libuv", "paired", "target", "verdict",
		"CPU µs gorun", "libuv", "ratio", "target", "verdict")
	report.Note("best is the least time or the highest rate; CPU is the server's own, for each operation or, in joins and of the large value, for each client.")
	report.Note("gorun/libuv is the ratio of the medians, paired the median of the ratios in each round, which neighbours on the machine disturb less.")
	return report
}

// row writes one line; cpu may be empty.
func (r *run) row(what, unit string, f, cpu figures, g goals) {
	cells := []string{what, unit, "", "", "", "", "", "", "", string(bench.NoFigure), "", "", "", "", ""}
	if !f.none() {
		copy(cells[2:], []string{number(f.best(0)), number(f.median(0)), number(f.best(1)), number(f.median(1)), ratio(f.median(0), f.median(1)), short(f.paired())})
		cells[8], cells[9] = g.target(&f)
	}
	if !cpu.none() && slices.Max(cpu.of[1]) > 0 {
		copy(cells[10:], []string{number(cpu.median(0)), number(cpu.median(1)), ratio(cpu.median(0), cpu.median(1))})
		cells[13], cells[14] = goals{ratio: g.cpu}.target(&cpu)
	}
	r.report.Row(cells...)
}

// target returns the goal in words and whether it is reached.
func (g goals) target(f *figures) (target, verdict string) {
	switch {
	case g.most > 0:
		return fmt.Sprintf("≤ %g", g.most), string(bench.Judge(f.best(0) <= g.most, f.median(0) <= g.most))
	case g.ratio == 0:
		return "", string(bench.NoTarget)
	}
	sign := "≤"
	if f.more {
		sign = "≥"
	}
	verdict = string(bench.Judge(f.reaches(f.best(0), f.best(1), g.ratio), f.reaches(f.median(0), f.median(1), g.ratio)))
	return fmt.Sprintf("%s %g", sign, g.ratio), verdict
}

// number prints a figure with as many digits as carry meaning.
func number(n float64) string {
	switch {
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	case n >= 0.1:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.3f", n)
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return short(a / b)
}

func short(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.4f", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}
