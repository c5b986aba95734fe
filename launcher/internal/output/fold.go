package output

import (
	"slices"
	"strconv"
	"strings"
)

// Fold writes a set of ranks briefly: [0-136,138-511]. Order and repetitions in the argument do not matter; it is left as
// it is.
func Fold(ranks []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ranks)))
	var b strings.Builder
	b.WriteByte('[')
	for len(sorted) > 0 {
		run := 1
		for run < len(sorted) && sorted[run] == sorted[0]+run {
			run++
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(sorted[0]))
		if run > 1 {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(sorted[run-1]))
		}
		sorted = sorted[run:]
	}
	b.WriteByte(']')
	return b.String()
}
