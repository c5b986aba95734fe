package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRanksThatDoTheSameShareTheirLines(t *testing.T) {
	h := Hang{Quiet: 90 * time.Second}
	for rank := range 8 {
		r := HangRank{Rank: rank, PID: 100 + rank, Standing: "sleeping", CPU: rank % 3, Keys: []string{"init/5"}, Stack: []string{"recv (a.py:1)", "step (a.py:2)", "x", "y"}}
		if rank == 5 {
			r = HangRank{Rank: rank, PID: 105, Standing: "running", CPU: 99, Stack: []string{"load (a.py:9)"}, Last: " loading shard 5\t"}
		}
		h.Ranks = append(h.Ranks, r)
	}
	assert.Equal(t, []string{
		"nothing has been printed and nothing came further in the store for 1m30s (--hang-timeout)",
		"  [5]      running, 99 % CPU; last line: loading shard 5",
		"           │ load (a.py:9)",
		`  [0-4,6-7] sleeping, 0 % CPU, waits in the store for "init/5"`,
		"           │ recv (a.py:1)", "           │ step (a.py:2)", "           │ x",
	}, h.Lines())
}

func TestAHangOfManyKindsIsToldInFewLines(t *testing.T) {
	var h Hang
	for rank := range 500 {
		h.Ranks = append(h.Ranks, HangRank{Rank: rank, Standing: "sleeping", Stack: []string{string(rune('a' + rank)), "b", "c", "d"}})
	}
	lines := h.Lines()
	assert.LessOrEqual(t, len(lines), 20)
	assert.Equal(t, "  and 496 groups more (--report has all)", lines[len(lines)-1])
}
