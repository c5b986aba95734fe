package tcpstore

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitsNameKeysAndRanks(t *testing.T) {
	s := open(t, Config{})
	c := dial(t, s)
	require.Empty(t, s.Waits())
	before := s.Snapshot().Progress
	done := make(chan error, 1)
	go func() { done <- c.Wait(t.Context(), "a", "b", "c", "d", "e") }()
	require.Eventually(t, func() bool { return len(s.Waits()) == 1 }, time.Minute, time.Millisecond)
	w := s.Waits()[0]
	require.Equal(t, os.Getpid(), w.PID)
	require.Equal(t, []string{"a", "b", "c", "d"}, w.Keys)
	require.Equal(t, 5, w.Missing)
	require.Equal(t, before, s.Snapshot().Progress, "a wait is no progress")

	other := dial(t, s)
	require.NoError(t, other.Set(t.Context(), "b", nil))
	require.NoError(t, other.Set(t.Context(), "b", nil))
	_, err := other.Check(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c", "d", "e"}, s.Waits()[0].Keys)
	require.Equal(t, before+1, s.Snapshot().Progress, "a key that exists already is nothing new")
	for _, key := range []string{"a", "c", "d", "e"} {
		require.NoError(t, other.Set(t.Context(), key, nil))
	}
	require.NoError(t, <-done)
	require.Empty(t, s.Waits())
	require.Equal(t, before+6, s.Snapshot().Progress, "five keys and the end of a wait")
}
