package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// table writes the columns of nccl-tests, followed by others.
type table struct {
	out    io.Writer
	config Config
}

// column is a column of the table.
type column struct {
	width      int
	head, unit string
	cell       func(r *Report, row Row) string
}

// columns are the groups of columns: size, out of place, in place, and expected values.
var columns = [...][]column{
	{
		{12, "size", "(B)", func(_ *Report, row Row) string { return fmt.Sprint(row.Bytes) }},
		{11, "count", "(elements)", func(_ *Report, row Row) string { return fmt.Sprint(row.Count) }},
		{9, "type", "", func(r *Report, _ Row) string { return find(elements, r.DType).short }},
		{7, "redop", "", func(r *Report, _ Row) string { return r.redop() }},
		{6, "root", "", func(r *Report, _ Row) string { return fmt.Sprint(r.Root) }},
	},
	placeColumns(func(row Row) *Place { return row.OutOfPlace }),
	placeColumns(func(row Row) *Place { return row.InPlace }),
	{
		{9, "bound", "(GB/s)", func(_ *Report, row Row) string { return orDash(row.Bound) }},
		{9, "model", "(us)", func(_ *Report, row Row) string { return knownNumber(row.Predicted) }},
		{8, "time", "/model", func(_ *Report, row Row) string { return orDash(row.Ratio()) }},
	},
}

// headings are the titles of the groups.
var headings = [...]string{"", "out-of-place", "in-place", "expected"}

// placeColumns returns the columns of one place.
func placeColumns(of func(Row) *Place) []column {
	cell := func(text func(p *Place) string) func(*Report, Row) string {
		return func(_ *Report, row Row) string {
			if p := of(row); p != nil {
				return text(p)
			}
			return "-"
		}
	}
	return []column{
		{9, "time", "(us)", cell(func(p *Place) string { return number(p.Median) })},
		{7, "spread", "(%)", cell(func(p *Place) string { return fmt.Sprintf("%.0f", p.Spread) })},
		{8, "algbw", "(GB/s)", cell(func(p *Place) string { return bandwidth(p.AlgBW) })},
		{8, "busbw", "(GB/s)", cell(func(p *Place) string { return bandwidth(p.BusBW) })},
		{7, "#wrong", "", cell(func(p *Place) string {
			if p.Wrong == nil {
				return "N/A"
			}
			return fmt.Sprint(*p.Wrong)
		})},
	}
}

// bandwidth formats two decimals, as nccl-tests does.
func bandwidth(v float64) string { return fmt.Sprintf("%.2f", v) }

func orDash(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func knownNumber(v float64) string {
	if v == 0 {
		return "-"
	}
	return number(v)
}

// line joins cells to a line that begins with mark.
func line(mark string, each func(c column) string) string {
	var b strings.Builder
	for _, group := range columns {
		for _, c := range group {
			fmt.Fprintf(&b, " %*s", c.width, each(c))
		}
		b.WriteString("  ")
	}
	return mark + strings.TrimRight(b.String()[len(mark):], " ") + "\n"
}

// above centers the headings over their columns.
func above() string {
	var b strings.Builder
	for i, group := range columns {
		width := 2
		for _, c := range group {
			width += 1 + c.width
		}
		left := (width + len(headings[i])) / 2
		fmt.Fprintf(&b, "%*s%*s", left, headings[i], width-left, "")
	}
	return "#" + strings.TrimRight(b.String()[1:], " ") + "\n"
}

func (t *table) begin(r *Report) error {
	text := fmt.Sprintf("# gorun bench %s %s: %d ranks, back end %s\n", r.Operation, r.Version, r.Ranks, r.Backend)
	text += "# time: median of the trials, each that of the slowest rank; spread: between the quartiles, of the median\n" +
		"#\n"
	if r.Rounded != "" {
		text = strings.TrimSuffix(text, "#\n") + "# sizes: " + r.Rounded + "\n#\n"
	}
	text += above() + line("#", func(c column) string {
		return c.head
	}) + line("#", func(c column) string { return c.unit })
	_, err := io.WriteString(t.out, text)
	return err
}

func (t *table) row(r *Report, row Row) error {
	_, err := io.WriteString(t.out, line("", func(c column) string { return c.cell(r, row) }))
	return err
}

func (t *table) end(r *Report) error {
	var b strings.Builder
	note := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	switch {
	case !r.Checked:
		note("Out of bounds values : not looked for (--check does)")
	case r.Wrong > 0:
		note("Out of bounds values : %d FAILED", r.Wrong)
	default:
		note("Out of bounds values : 0 OK")
	}
	note("Avg bus bandwidth    : %s", number(r.AverageBusBW))
	b.WriteString("#\n")
	t.footnotes(r, note)
	b.WriteString(pathTable(r.Paths))
	_, err := io.WriteString(t.out, b.String())
	return err
}

// footnotes writes what the columns of expected values mean, and the other requested results.
func (t *table) footnotes(r *Report, note func(format string, args ...any)) {
	if r.bounded() && t.config.Link > 0 {
		note("bound: --link-bandwidth, %s GB/s", number(t.config.Link/1e9))
	} else if r.bounded() {
		note("bound: as busbw; each input byte read and each output byte written once, as fast as all %d ranks copied "+
			"memory of this size just before", r.Ranks)
	}
	if r.Model != nil {
		note("model: %s", r.Model)
		if text := r.Model.Alternative(); text != "" {
			note("       %s", text)
		}
	}
	if t.config.Predict > 0 && (r.Model != nil || len(r.Rows) > 0) {
		note("predict: %s", r.prediction(t.config.Predict))
	}
	if r.Share != nil {
		note("%s", r.Share)
	}
}

// bounded reports whether any row has a bound.
func (r *Report) bounded() bool {
	for _, row := range r.Rows {
		if row.Bound > 0 {
			return true
		}
	}
	return false
}

// pathTable has a line for each path. Columns without another unit are in GB/s.
func pathTable(paths []Path) string {
	if len(paths) == 0 {
		return ""
	}
	rows := [][]string{
		{"# from", "to", "by", "way", "link", "latency", "->", "<-", "-> x4", "<- x4", "of link"},
		{"#", "", "", "", "(GB/s)", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "(GB/s)", "(%)"},
	}
	for _, p := range paths {
		row := []string{"  " + p.From, p.To, p.By, cmp.Or(p.Way, "-"), orDash(p.Link)}
		if p.Error != "" {
			rows = append(rows, append(row, "not measured: "+p.Error))
			continue
		}
		share := "-"
		if p.Link > 0 {
			share = fmt.Sprintf("%.0f", 100*p.best()/p.Link)
		}
		rows = append(rows, append(row, knownNumber(p.Latency),
			orDash(p.Forth), orDash(p.Back), orDash(p.ForthMany), orDash(p.BackMany), share))
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if i < 5 || len(row) == len(widths) {
				widths[i] = max(widths[i], len(cell))
			}
		}
	}
	text := "#\n# paths, each measured alone: latency is half a round trip, " +
		"-> from the first end to the second, x4 by 4 streams together\n"
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if i < 4 || len(row) < len(widths) && i == 5 {
				line += fmt.Sprintf("%-*s  ", widths[i], cell)
			} else {
				line += fmt.Sprintf("%*s  ", widths[i], cell)
			}
		}
		text += strings.TrimRight(line, " ") + "\n"
	}
	return text
}
