package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRounds(t *testing.T) {
	for n := range 40 {
		seen := map[Pair]bool{}
		rounds := Rounds(n)
		for _, round := range rounds {
			busy := map[int]bool{}
			for _, p := range round {
				require.False(t, busy[p.From] || busy[p.To] || p.From == p.To || seen[p], "%d nodes: %v", n, round)
				busy[p.From], busy[p.To], seen[p] = true, true, true
			}
		}
		if n > 1 && n <= maxMeasureAll {
			require.Len(t, seen, n*(n-1))
			require.LessOrEqual(t, len(rounds), 14, "%d nodes", n)
		}
		for i := range n {
			require.True(t, n == 1 || seen[Pair{i, (i + 1) % n}] && seen[Pair{(i + 1) % n, i}], "%d of %d", i, n)
		}
		if n > maxMeasureAll {
			require.LessOrEqual(t, len(rounds), 6)
		}
	}
}
