package probe

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMatrix(t *testing.T) {
	m := Matrix{Names: []string{"h1", "h2", "h3"}}
	works := Result{RTT: 400 * time.Microsecond}
	m.Add(0, 1, Result{Problem: noAnswer})
	m.Add(0, 1, works) // by another address
	m.Add(0, 1, Result{RTT: 5 * time.Second})
	m.Add(0, 1, Result{Problem: refused})
	m.Add(0, 2, Result{Problem: noAnswer})
	m.Add(1, 0, Result{RTT: 1500 * time.Microsecond})
	m.Add(1, 2, Result{Problem: noAnswer})
	m.Add(2, 0, Result{Problem: refused})
	m.Add(2, 1, Result{Problem: refused})
	require.Equal(t, "2 of 6 ways between 3 hosts work; the slowest is from h2 to h1: 1.5 ms", m.Summary())
	require.Equal(t, `from / to       h1       h2       h3
h1               .      0.4        -
h2             1.5        .        -
h3               -        -        .`, m.Grid())
}

// Every node is dialed by somebody, and the number of dials stays small.
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
