package launcher

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// The next attempt may have fewer ranks than the one whose log files a client follows.
func TestFollowedRankThatIsGone(t *testing.T) {
	h := &head{}
	h.plan.Store(&job.Plan{Ranks: make([]job.Rank, 1)})
	files := logFiles{{rankStream{1, 1}, "rank 1's", nil}}
	files.switchTo(h)
	require.Equal(t, "rank 1's", files[0].name)
}

// A stream that is followed from its middle starts at a whole character. So does each piece of a line that is too
// long to show at once.
func TestLinesEndAtRunes(t *testing.T) {
	at := rankStream{0, 1}
	said := func(tail *int, end string, truncated bool) (texts []string) {
		l := &lineSender{partial: map[rankStream][]byte{}, tail: tail, send: func(part any) error {
			for _, line := range part.(registry.Logs).Lines {
				texts = append(texts, line.Text)
			}
			return nil
		}}
		l.writeTail(at, []byte(end), truncated)
		l.flushAll()
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
	assert.Len(t, said(nil, strings.Repeat("x\n", 3*defaultTail), false), defaultTail)
	assert.Len(t, said(new(2*defaultTail), strings.Repeat("x\n", 3*defaultTail), false), 2*defaultTail)
	long := said(nil, "ab"+strings.Repeat("€", maxLineBytes/3)+"b\n", false)
	require.Len(t, long, 2)
	assert.Equal(t, "€b", long[1])
}
