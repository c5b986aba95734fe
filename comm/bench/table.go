package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table writes sizes, times and bandwidths as nccl-tests does, in at most maxWidth columns.
type table struct {
	out    io.Writer
	config Config
}

const maxWidth = 100

// column is a column of the table.
type column struct {
	width      int
	head, unit string
	cell       func(row Row) string
}

// columns returns the groups of columns: size, out of place, in place, and what is known of both.
func (t *table) columns() [4][]column {
	last := []column{{7, "bound", "(GB/s)", func(row Row) string { return orDash(row.Bound) }}}
	if t.config.Check {
		last = append(last, column{6, "#wrong", "", func(row Row) string { return fmt.Sprint(row.wrong()) }})
	}
	return [4][]column{
		{
			{10, "size", "(B)", func(row Row) string { return fmt.Sprint(row.Bytes) }},
			{9, "count", "", func(row Row) string { return fmt.Sprint(row.Count) }},
		},
		placeColumns(func(row Row) *Place { return row.OutOfPlace }),
		placeColumns(func(row Row) *Place { return row.InPlace }),
		last,
	}
}

// wrong returns the number of wrong elements, in place and out of place.
func (r Row) wrong() (n int64) {
	for _, p := range []*Place{r.OutOfPlace, r.InPlace} {
		if p != nil && p.Wrong != nil {
			n += *p.Wrong
		}
	}
	return n
}

// headings are the titles of the groups.
var headings = [...]string{"", "out-of-place", "in-place", ""}

// placeColumns returns the columns of one place.
func placeColumns(of func(Row) *Place) []column {
	cell := func(text func(p *Place) string) func(Row) string {
		return func(row Row) string {
			if p := of(row); p != nil {
				return text(p)
			}
			return "-"
		}
	}
	return []column{
		{7, "time", "(us)", cell(func(p *Place) string { return number(p.Median) })},
		{6, "spread", "(%)", cell(func(p *Place) string { return fmt.Sprintf("%.0f", p.Spread) })},
		{7, "algbw", "(GB/s)", cell(func(p *Place) string { return bandwidth(p.AlgBW) })},
		{7, "busbw", "(GB/s)", cell(func(p *Place) string { return bandwidth(p.BusBW) })},
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
func (t *table) line(mark string, each func(c column) string) string {
	var b strings.Builder
	for i, group := range t.columns() {
		for _, c := range group {
			fmt.Fprintf(&b, " %*s", c.width, each(c))
		}
		if i < 2 {
			b.WriteString(" ")
		}
	}
	return mark + strings.TrimRight(b.String()[len(mark):], " ") + "\n"
}

// above centers the headings over their columns.
func (t *table) above() string {
	var b strings.Builder
	for i, group := range t.columns() {
		width := 1
		for _, c := range group {
			width += 1 + c.width
		}
		left := (width + len(headings[i])) / 2
		fmt.Fprintf(&b, "%*s%*s", left, headings[i], width-left, "")
	}
	return "#" + strings.TrimRight(b.String()[1:], " ") + "\n"
}

// comment formats a text as comments of at most maxWidth columns.
func comment(text string) string {
	lines := []string{"#"}
	const joined = "\x00%" // a percent sign stays with its number
	for _, word := range strings.Fields(strings.ReplaceAll(text, " %", joined)) {
		word = strings.ReplaceAll(word, joined, " %")
		last := &lines[len(lines)-1]
		if utf8.RuneCountInString(*last+" "+word) > maxWidth {
			lines = append(lines, "#  "+" "+word)
			continue
		}
		*last += " " + word
	}
	return strings.Join(lines, "\n") + "\n"
}

func (t *table) begin(r *Report) error {
	what := r.DType
	if r.Op != "" {
		what += ", " + r.Op
	}
	if r.Root >= 0 {
		what += fmt.Sprintf(", root %d", r.Root)
	}
	text := comment(fmt.Sprintf("gorun bench %s %s: %d ranks, back end %s, %s", r.Operation, r.Version, r.Ranks, r.Backend,
		what))
	text += comment("time: median of the trials, each that of the slowest rank")
	text += comment("spread: between the quartiles, in percent of the median")
	if r.Rounded != "" {
		text += comment("sizes: " + r.Rounded)
	}
	text += "#\n" + t.above() + t.line("#", func(c column) string { return c.head }) +
		t.line("#", func(c column) string { return c.unit })
	_, err := io.WriteString(t.out, text)
	return err
}

func (t *table) row(_ *Report, row Row) error {
	_, err := io.WriteString(t.out, t.line("", func(c column) string { return c.cell(row) }))
	return err
}

func (t *table) end(r *Report) error {
	var b strings.Builder
	note := func(format string, args ...any) { b.WriteString(comment(fmt.Sprintf(format, args...))) }
	switch {
	case !r.Checked:
		b.WriteString("# Out of bounds values : not looked for (--check does)\n")
	case r.Wrong > 0:
		fmt.Fprintf(&b, "# Out of bounds values : %d FAILED\n", r.Wrong)
	default:
		b.WriteString("# Out of bounds values : 0 OK\n")
	}
	fmt.Fprintf(&b, "# Avg bus bandwidth    : %s\n", number(r.AverageBusBW))
	b.WriteString("#\n")
	t.footnotes(r, note)
	if t.config.Model {
		b.WriteString(r.modelTable())
	}
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
	text := "#\n" + comment("paths, each measured alone: latency is half a round trip, "+
		"-> from the first end to the second, x4 by 4 streams together")
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
