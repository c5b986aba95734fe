package launcher

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/registry"
)

// What begins in the middle of a stream begins with a whole character, and so do the pieces of a line
// that is too long to be shown in one.
func TestLogsAreWholeCharacters(t *testing.T) {
	at := channel{0, 1}
	said := func(tail *int, end string, truncated bool) (texts []string) {
		l := &liner{open: map[channel][]byte{}, tail: tail, send: func(part any) error {
			for _, line := range part.(registry.Logs).Lines {
				texts = append(texts, line.Text)
			}
			return nil
		}}
		l.last(at, []byte(end), truncated)
		l.rest()
		return texts
	}
	for cut := range len("€") {
		assert.Equal(t, map[bool][]string{true: {"...€ 5", "six"}, false: {"... 5", "six"}}[cut == 0],
			said(nil, "€ 5\nsix\n"[cut:], true))
	}
	assert.Equal(t, []string{"...", "six"}, said(nil, "\x82\nsix\n", true))
	assert.Equal(t, []string{"six"}, said(new(1), "five\nsix\n", true))
	assert.Equal(t, []string{"six"}, said(new(1), "five\nsix", true), "an unfinished line is one")
	assert.Equal(t, []string{"...five", "six"}, said(new(2), "five\nsix\n", true))
	assert.Empty(t, said(new(0), "five\nsix\n", false))
	assert.Len(t, said(nil, strings.Repeat("x\n", 3*shownLines), false), shownLines)
	assert.Len(t, said(new(2*shownLines), strings.Repeat("x\n", 3*shownLines), false), 2*shownLines)
	long := said(nil, "ab"+strings.Repeat("€", maxShown/3)+"b\n", false)
	require.Len(t, long, 2)
	assert.Equal(t, "€b", long[1])
}
