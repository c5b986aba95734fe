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
