package remote

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// For a command that writes forever, the tail keeps the end of the output in bounded memory.
func TestTail(t *testing.T) {
	var tail Tail
	for range 10_000 {
		n, err := tail.Write(bytes.Repeat([]byte("a"), 100))
		require.NoError(t, err)
		require.Equal(t, 100, n)
	}
	_, _ = tail.Write(bytes.Repeat([]byte("b"), 1<<20))
	_, _ = tail.Write([]byte("end"))
	require.Len(t, tail.String(), tailSize)
	require.Equal(t, "bbend", tail.String()[tailSize-5:])
	require.LessOrEqual(t, cap(tail.text), 8*tailSize)
}
