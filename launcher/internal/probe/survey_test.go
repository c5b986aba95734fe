package probe

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSummaryAndGrid(t *testing.T) {
	s := Survey{Nodes: []Node{{Name: "h1"}, {Name: "h2"}, {Name: "h3"}}}
	require.Empty(t, s.Summary())
	for _, row := range []struct {
		from, to int
		result   Result
	}{
		{0, 1, Result{Problem: noAnswer}},
		{0, 1, Result{RTT: 400 * time.Microsecond}}, // by another address
		{0, 1, Result{RTT: 5 * time.Second}},
		{0, 1, Result{Problem: refused}},
		{0, 2, Result{Problem: noAnswer}},
		{1, 0, Result{RTT: 1500 * time.Microsecond}},
		{1, 2, Result{Problem: noAnswer}},
		{2, 0, Result{Problem: refused}},
		{2, 1, Result{Problem: refused}},
	} {
		s.Paths = append(s.Paths, &Path{Pair: Pair{row.from, row.to}, Result: row.result})
	}
	require.Equal(t, "2 of 6 paths between 3 hosts work; the slowest is from h2 to h1: 1.5 ms", s.Summary())
	require.Equal(t, `from / to       h1       h2       h3
h1               .      0.4        -
h2             1.5        .        -
h3               -        -        .`, s.Grid())
}

// Every node is dialed by another, and the number of dials stays small.
func TestPartners(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64, 65, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dialed := make([]int, n)
			for i := range n {
				partners := Partners(n, i)
				require.LessOrEqual(t, len(partners), 63)
				seen := map[int]bool{i: true}
				for _, p := range partners {
					require.False(t, seen[p], "%d dials %d twice, or itself", i, p)
					seen[p] = true
					dialed[p]++
				}
			}
			for i, times := range dialed {
				require.Equal(t, n > 1, times > 0, i)
			}
		})
	}
}
