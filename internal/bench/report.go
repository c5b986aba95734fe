package bench

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

// Verdict says whether a measured pair reached its target.
type Verdict string

// Verdicts. A target holds when the minima and the medians both reach it.
const (
	OK         Verdict = "ok"
	MinOnly    Verdict = "miss (median)"
	MedianOnly Verdict = "miss (minimum)"
	Miss       Verdict = "miss"
	NoTarget   Verdict = ""
	NoFigure   Verdict = "no figure"
)

// Judge combines what the minima and the medians say.
func Judge(minimum, median bool) Verdict {
	switch {
	case minimum && median:
		return OK
	case minimum:
		return MinOnly
	case median:
		return MedianOnly
	}
	return Miss
}

// JudgeRatio says whether ours takes no longer than ratio times what other does.
func JudgeRatio(ours, other Series, ratio float64) Verdict {
	if len(ours.Walls) == 0 || len(other.Walls) == 0 {
		return NoFigure
	}
	reached := func(a, b time.Duration) bool { return float64(a) <= ratio*float64(b) }
	return Judge(reached(ours.Min(), other.Min()), reached(ours.Median(), other.Median()))
}

// Report is a table of figures: what is printed as text and written as JSON.
type Report struct {
	Title   string     `json:"title"`
	Machine string     `json:"machine"`
	Begun   time.Time  `json:"begun"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Notes   []string   `json:"notes,omitempty"`
}

// NewReport begins a table.
func NewReport(title string, columns ...string) *Report {
	machine := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	return &Report{Title: title, Machine: machine, Begun: time.Now().UTC().Truncate(time.Second), Columns: columns}
}

// Row adds one line.
func (r *Report) Row(cells ...string) { r.Rows = append(r.Rows, cells) }

// Note adds a line below the table.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Print writes the table as text.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s)\n", r.Title, r.Machine)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{r.Columns}, r.Rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t")+"\t")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Finish prints the report to standard output and writes it as JSON to path, if that is not empty.
func (r *Report) Finish(path string) error {
	if err := r.Print(os.Stdout); err != nil || path == "" {
		return err
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}

// Millis prints a duration in milliseconds with as many digits as carry meaning.
func Millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "-"
	case ms < 100:
		return fmt.Sprintf("%.2f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// Ratio prints a/b.
func Ratio(a, b time.Duration) string {
	if a == 0 || b == 0 {
		return "-"
	}
	ratio := float64(a) / float64(b)
	if ratio < 0.1 {
		return fmt.Sprintf("%.4f", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}
