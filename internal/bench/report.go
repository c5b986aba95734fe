package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is a table of figures, which is printed as text and written as JSON.
type report struct {
	Title   string     `json:"title"`
	Machine string     `json:"machine"`
	Begun   time.Time  `json:"begun"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes,omitempty"`
}

func newReport(title string, columns ...string) *report {
	machine := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		machine += ", load " + strings.Fields(string(load))[0]
	}
	return &report{Title: title, Machine: machine, Begun: time.Now().UTC().Truncate(time.Second), Columns: columns}
}

func (r *report) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	r.Rows = append(r.Rows, texts)
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// print writes the table as text.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s)\n", r.Title, r.Machine)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Rows) > 0 {
		fmt.Fprintln(table, strings.Join(r.Columns, "\t")+"\t")
	}
	for _, row := range r.Rows {
		fmt.Fprintln(table, strings.Join(row, "\t")+"\t")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(append(r.Notes, ""), "\n"))
	return err
}

// missed returns the first rows that miss their targets, and counts the others in its title.
func (r *report) missed() *report {
	short, reached, missed := *r, 0, 0
	short.Rows = nil
	for _, row := range r.Rows {
		switch {
		case slices.ContainsFunc(row, func(cell string) bool { return strings.HasPrefix(cell, "miss") }):
			if missed++; missed <= 6 {
				short.Rows = append(short.Rows, row)
			}
		case slices.Contains(row, "ok"):
			reached++
		}
	}
	short.Title += fmt.Sprintf(": %d of %d targets are reached", reached, reached+missed)
	return &short
}

// samples are measurements of one thing, in the order of the rounds.
type samples []float64

// min, max and median are 0 without samples.
func (s samples) min() float64 { return s.ranked(0) }

func (s samples) max() float64 { return s.ranked(len(s) - 1) }

func (s samples) median() float64 { return s.ranked(len(s) / 2) }

func (s samples) ranked(i int) float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[i]
}

// goal is what gorun's best figure and its median should reach. The zero value is no goal.
type goal struct {
	ratio float64 // at most this multiple of the peer's figure
	above float64 // or at most this much above it
	most  float64 // or at most this
	least float64 // or, if more is better, at least this multiple of the peer's figure
}

func (g goal) String() string {
	switch {
	case g.above > 0:
		return "≤ +" + number(g.above) + " ms"
	case g.least > 0:
		return fmt.Sprintf("≥ %g", g.least)
	case g.ratio+g.most > 0:
		return fmt.Sprintf("≤ %g", g.ratio+g.most)
	}
	return ""
}

func (g goal) judge(ours, theirs samples) string {
	reached := func(ours, theirs float64) bool { return ours <= g.ratio*theirs+g.most }
	switch {
	case g == goal{}:
		return ""
	case len(ours) == 0 || len(theirs) == 0:
		return noFigure
	case g.least > 0:
		return verdict(ours.max() >= g.least*theirs.max(), ours.median() >= g.least*theirs.median())
	case g.above > 0:
		reached = func(ours, theirs float64) bool { return ours <= theirs+g.above }
	}
	return verdict(reached(ours.min(), theirs.min()), reached(ours.median(), theirs.median()))
}

// best is the figure that a goal compares first.
func (g goal) best(s samples) float64 {
	if g.least > 0 {
		return s.max()
	}
	return s.min()
}

// verdict formats whether the minimum and the median reach a target.
func verdict(minimum, median bool) string {
	switch {
	case minimum && median:
		return "ok"
	case minimum:
		return "miss (median)"
	case median:
		return "miss (minimum)"
	}
	return "miss"
}

// noFigure replaces a verdict without figures.
const noFigure = "no figure"

// number formats a figure with its significant digits; 0 is no figure.
func number(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	case n >= 0.1:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.4f", n)
}

// ratio formats a/b.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return number(a / b)
}
