package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
)

// writer writes a report while it is created.
type writer interface {
	begin(r *Report) error
	row(r *Report, row Row) error
	end(r *Report) error
}

// discard is the writer of ranks that write nothing.
type discard struct{}

func (discard) begin(*Report) error    { return nil }
func (discard) row(*Report, Row) error { return nil }
func (discard) end(*Report) error      { return nil }

// newWriter returns the writer for the requested format.
func newWriter(c Config, host Host, out io.Writer) writer {
	var w writer = &table{out: out, config: c}
	switch {
	case c.JSON:
		w = asJSON{out: out, write: host.WriteJSON}
	case c.CSV:
		w = &asCSV{csv: csv.NewWriter(out)}
	case c.SVG == "-":
		w = discard{}
	}
	if c.SVG != "" {
		w = drawn{w, c.SVG, out}
	}
	return w
}

// asJSON writes the report at the end.
type asJSON struct {
	discard
	out   io.Writer
	write func(io.Writer, *Report) error
}

func (w asJSON) end(r *Report) error { return w.write(w.out, r) }

// asCSV writes a line for each size and place.
type asCSV struct {
	discard
	csv *csv.Writer
}

// csvHead are the column titles, with units.
var csvHead = []string{
	"operation", "backend", "ranks", "size_bytes", "count", "type", "redop", "root", "place", "trials", "calls_per_trial",
	"min_us", "median_us", "max_us", "algbw_GBps", "busbw_GBps", "wrong", "bound_busbw_GBps", "predicted_us",
}

func (w *asCSV) begin(*Report) error { return w.write(csvHead) }

func (w *asCSV) write(cells []string) error {
	_ = w.csv.Write(cells) // Error reports it
	w.csv.Flush()
	return w.csv.Error()
}

func (w *asCSV) row(r *Report, row Row) error {
	for _, place := range []struct {
		name string
		*Place
	}{{"out", row.OutOfPlace}, {"in", row.InPlace}} {
		p := place.Place
		if p == nil {
			continue
		}
		wrong := ""
		if p.Wrong != nil {
			wrong = fmt.Sprint(*p.Wrong)
		}
		err := w.write([]string{
			r.Operation, r.Backend, fmt.Sprint(r.Ranks), fmt.Sprint(row.Bytes), fmt.Sprint(row.Count), r.DType, r.redop(),
			fmt.Sprint(r.Root),
			place.name, fmt.Sprint(p.Trials), fmt.Sprint(p.Batch), exact(p.Min), exact(p.Median), exact(p.Max),
			exact(p.AlgBW), exact(p.BusBW),
			wrong, known(row.Bound), known(row.Predicted),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// redop returns the reduction in the notation of nccl-tests.
func (r *Report) redop() string {
	if r.Op == "" {
		return "none"
	}
	return r.Op
}

// exact formats six significant digits, more than the precision of any time.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// known is exact, but returns "" for 0.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return exact(v)
}

// number formats three or four significant digits without an exponent.
func number(v float64) string {
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "?"
	case v == 0:
		return "0"
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// bytesText formats a size in the largest binary unit that divides it, or with a fraction in a smaller unit.
func bytesText(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, unit := float64(bytes), 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " " + units[unit]
}

// drawn also writes the chart.
type drawn struct {
	writer
	file string
	out  io.Writer
}

func (w drawn) end(r *Report) error {
	if err := w.writer.end(r); err != nil {
		return err
	}
	text := r.SVG()
	if w.file == "-" {
		_, err := io.WriteString(w.out, text)
		return err
	}
	// #nosec G306 -- what the umask leaves is the user's choice
	if err := os.WriteFile(w.file, []byte(text), 0o666); err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	return nil
}
