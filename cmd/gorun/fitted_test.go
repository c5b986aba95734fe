package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFitted(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	table := [][]string{{"NAME", "VALUE", "WHY"}, {"A", "1", "short"}, {"B", "2", long}, {"alone"}}
	require.Equal(t, table, fitted(table, 0))
	require.Equal(t, table, fitted(table, 200))
	require.Nil(t, fitted(nil, 80))

	// Beside the other columns where there is room, else below them; nothing is lost, and nothing is too wide.
	for _, width := range []int{60, 53, 52, 48} {
		text := aligned(fitted(table, width))
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, text)
		}
		assert.Equal(t, 20, strings.Count(text, "word"), text)
		assert.Contains(t, text, "A     1      short\n")
	}
	assert.Contains(t, aligned(fitted(table, 60)), "B     2      word word")
	assert.Contains(t, aligned(fitted(table, 60)), "\n             word")
	assert.Contains(t, aligned(fitted(table, 48)), "B     2\n    word word")
}
