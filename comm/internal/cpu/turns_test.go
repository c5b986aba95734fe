//go:build cgo

package cpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
)

// The clock is read after a number of short calls, and after each long one.
func TestTurnsLookAtTheClockNowAndThen(t *testing.T) {
	var small turns
	for range look - 1 {
		small.over(&backend.Call{Kind: backend.Barrier})
	}
	require.True(t, small.began.IsZero())
	small.over(&backend.Call{Kind: backend.Barrier})
	require.False(t, small.began.IsZero())

	var large turns
	large.over(&backend.Call{Kind: backend.AllReduce, DType: backend.Float32, Count: 1 << 18})
	require.False(t, large.began.IsZero())
}

func TestTurnsAreOfferedOncePerTurn(t *testing.T) {
	began := time.Unix(1000, 0)
	s := turns{began: began}
	s.look(began.Add(turn - 1))
	require.Equal(t, began, s.began)
	s.look(began.Add(turn))
	require.Equal(t, began.Add(turn), s.began)
}
