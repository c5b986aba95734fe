package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is a table of figures: what is printed as text and written as JSON.
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
	for _, row := range append([][]string{r.Columns}, r.Rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t")+"\t")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(append(r.Notes, ""), "\n"))
	return err
}

func writeJSON(path string, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}

// verdict says whether a target is reached. It is where the minima and the medians both reach it.
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

// noFigure stands where there is nothing to judge.
const noFigure = "no figure"

// number prints a figure with as many digits as carry meaning; there is none that is 0.
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

// millis prints a time in milliseconds.
func millis(d time.Duration) string { return number(float64(d) / float64(time.Millisecond)) }

// ratio prints a/b.
func ratio[T ~int64 | ~float64](a, b T) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return number(float64(a) / float64(b))
}
