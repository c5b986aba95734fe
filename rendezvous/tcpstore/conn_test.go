package tcpstore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous"
)

// The most frequent requests do not allocate.
func TestRequestsDoNotAllocate(t *testing.T) {
	l := &loop{engine: rendezvous.NewEngine()}
	l.cfg.Limits = l.cfg.Limits.withDefaults()
	l.engine.Set([]byte("/a"), []byte("value"))
	c := &conn{}
	for _, request := range [][]byte{
		keyed(opGet, "a"),
		keyed(opGet, "missing"),
		listed(opMultiGet, "a", "a"),
		listed(opCheck, "a", "missing"),
		listed(opWait, "a"),
		append([]byte{opPing}, 1, 2, 3, 4),
		{opNumKeys},
		{opCancelWait},
	} {
		l.out = slices.Grow(l.out[:0], flushAt)
		served := 0
		allocations := testing.AllocsPerRun(10, func() {
			served = l.next(c, request)
			l.out = l.out[:0]
		})
		require.Equal(t, len(request), served, protocol[request[0]].name)
		require.Zero(t, allocations, protocol[request[0]].name)
	}
}
