package main

import (
	"slices"
	"unicode/utf8"
)

// leastLast is how many columns the last column of a table has at least where it is wrapped beside the others.
const leastLast = 40

// fitted is a table whose last column is wrapped, in rows of its own, so that it fits into a terminal's width. Where
// the other columns leave too little room for that it stands below them. Width 0 is no terminal: one line a row is what
// grep wants. Rows that are shorter than the first stay as they are.
func fitted(table [][]string, width int) [][]string {
	if width == 0 || len(table) == 0 {
		return table
	}
	last := len(table[0]) - 1
	room := width - before(table, last)
	var all [][]string
	for _, row := range table {
		if len(row) <= last || utf8.RuneCountInString(row[last]) <= room {
			all = append(all, row)
			continue
		}
		if room < leastLast {
			all = append(all, row[:last])
			for _, line := range wrapped(row[last], max(width-len(below), leastLast)) {
				all = append(all, []string{below + line})
			}
			continue
		}
		for i, line := range wrapped(row[last], room) {
			if i > 0 {
				row = make([]string, last)
			}
			all = append(all, append(slices.Clone(row[:last]), line))
		}
	}
	return all
}

// below stands before a last column that is below the others.
const below = "    "

// before is how many characters stand before the last column of a table.
func before(table [][]string, last int) (n int) {
	for i := range last {
		widest := 0
		for _, row := range table {
			if i < len(row)-1 {
				widest = max(widest, utf8.RuneCountInString(row[i]))
			}
		}
		n += widest + 2
	}
	return n
}
