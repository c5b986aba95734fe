package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// ParseRanksFilter reads the value of torchrun's --local-ranks-filter: local ranks with commas. It returns them sorted,
// each once; empty text is nil, which means all.
func ParseRanksFilter(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	var ranks []int
	for field := range strings.SplitSeq(s, ",") {
		rank, ok := parseLocalRank(strings.TrimSpace(field))
		if !ok {
			return nil, fmt.Errorf("local ranks filter %q: %q is no local rank; want a list such as 0,2,5", s, field)
		}
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks), nil
}

// ParseLineFilters reads the value of torchrun's --duplicate-stdout-filters and --duplicate-stderr-filters: texts with
// commas, where two commas are a comma within a text. Empty text is nil. An empty text in the list, which fits every line,
// is kept, as torchrun keeps it.
func ParseLineFilters(s string) []string {
	if s == "" {
		return nil
	}
	var filters []string
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != ',':
			text.WriteByte(s[i])
		case strings.HasPrefix(s[i:], ",,"):
			text.WriteByte(',')
			i++
		default:
			filters = append(filters, text.String())
			text.Reset()
		}
	}
	return append(filters, text.String())
}

// containsAny tells whether the line holds any of the texts.
func containsAny(line []byte, texts [][]byte) bool {
	for _, text := range texts {
		if bytes.Contains(line, text) {
			return true
		}
	}
	return false
}
