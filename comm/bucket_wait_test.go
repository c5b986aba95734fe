package comm

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Wait returns only when no bucket is in use, also if the first one failed.
func TestBucketerWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, last := errors.New("lost"), &Work{done: make(chan struct{})}
		b := &Bucketer[int8]{buckets: []bucket[int8]{{work: finished(lost)}, {work: last}}}
		var err error
		go func() { err = b.Wait() }()
		synctest.Wait()
		require.NoError(t, err, "not yet")
		close(last.done)
		synctest.Wait()
		require.ErrorIs(t, err, lost)
	})
}

// Memory that is gone is not touched.
func TestBucketerAfterClose(t *testing.T) {
	for _, closeGroup := range []bool{false, true} {
		g, err := Join(t.Context(), WithRank(0, 1))
		require.NoError(t, err)
		b, err := NewBucketer(t.Context(), g, Sum, 0, []float32{1}, []float32{2})
		require.NoError(t, err)
		require.NoError(t, b.Ready(t.Context(), 0))
		if closeGroup {
			require.NoError(t, b.Ready(t.Context(), 1))
			require.NoError(t, g.Close())
			require.ErrorIs(t, b.Wait(), ErrClosed)
			continue
		}
		require.NoError(t, b.Close(t.Context()))
		require.Error(t, b.Ready(t.Context(), 1))
		require.Error(t, b.Wait())
		require.NoError(t, b.Close(t.Context()))
		require.NoError(t, g.Close())
	}
}
