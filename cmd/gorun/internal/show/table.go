// Package show lays out what gorun's commands print: tables and wrapped text, as wide as the terminal, or JSON.
package show

import (
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/internal/printable"
)

// minLastColumn is the least width to which Table wraps the last column beside the others, minFirstColumn the least to
// which it narrows the first one for that.
const minLastColumn, minFirstColumn = 28, 12

// belowIndent precedes a last column that is below the others.
const belowIndent = "    "

// Table aligns rows in columns that are two spaces apart. It escapes what a terminal would obey, see
// printable.Text. The last cell of each row is not padded. Unless width is 0, the last column is wrapped to it,
// beside the other columns. Where they leave too little room, long cells of the first column are on lines of their own,
// or the last column is below the others. Rows that are shorter than the first are not wrapped.
func Table(rows [][]string, width int) string {
	rows = fit(escaped(rows), width)
	widths := columnWidths(rows)
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func escaped(rows [][]string) [][]string {
	safe := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			safe[i] = append(safe[i], strings.ReplaceAll(printable.Text(cell), "\t", " "))
		}
	}
	return safe
}

// columnWidths returns the width of each column but a row's last.
func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, cell := range row[:max(len(row)-1, 0)] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func fit(rows [][]string, width int) (fitted [][]string) {
	if width == 0 || len(rows) == 0 {
		return rows
	}
	last := len(rows[0]) - 1
	room := roomForLast(rows, width)
	if room < minLastColumn && last > 0 {
		if first := columnWidths(rows)[0] - (minLastColumn - room); first >= minFirstColumn {
			rows = breakAfterFirst(rows, first)
			room = roomForLast(rows, width)
		}
	}
	for _, row := range rows {
		switch {
		case len(row) <= last || utf8.RuneCountInString(row[last]) <= room:
			fitted = append(fitted, row)
		case room < minLastColumn:
			fitted = append(fitted, row[:last])
			for _, line := range printable.Wrap(row[last], max(width-len(belowIndent), minLastColumn)) {
				fitted = append(fitted, []string{belowIndent + line})
			}
		default:
			beside := row[:last:last]
			for _, line := range printable.Wrap(row[last], room) {
				fitted = append(fitted, append(beside, line))
				beside = make([]string, last)
			}
		}
	}
	return fitted
}

func roomForLast(rows [][]string, width int) int {
	for _, w := range columnWidths(rows) {
		width -= w + 2
	}
	return width
}

// breakAfterFirst puts first cells that are wider than width on lines of their own.
func breakAfterFirst(rows [][]string, width int) (broken [][]string) {
	for _, row := range rows {
		if len(row) > 1 && utf8.RuneCountInString(row[0]) > width {
			broken = append(broken, row[:1])
			row = append([]string{""}, row[1:]...)
		}
		broken = append(broken, row)
	}
	return broken
}

// OrDash returns s, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// WithoutEmpty drops those of the columns from first to last whose cells below the heading are all "" or "-".
func WithoutEmpty(rows [][]string, first, last int) [][]string {
	for column := last; column >= first; column-- {
		if slices.ContainsFunc(rows[1:], func(row []string) bool {
			return column < len(row) && OrDash(row[column]) != "-"
		}) {
			continue
		}
		for i, row := range rows {
			if column < len(row) {
				rows[i] = slices.Delete(row, column, column+1)
			}
		}
	}
	return rows
}
