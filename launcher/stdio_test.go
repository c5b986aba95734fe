package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was read for an attempt that is over by then goes to no rank: the next attempt has not counted it.
func TestInputThatComesAfterItsAttempt(t *testing.T) {
	var got []string
	p := &stdinPump{ranks: []int{0}, nodes: map[int]int{}, nodeOf: func(int) int { return 0 }}
	p.room.L = &p.mu
	p.write = func(_ int, b []byte) { got = append(got, string(b)) }
	p.send([]byte("first"))
	p.stop()
	p.send([]byte("late"))
	require.Equal(t, []string{"first"}, got)
	require.NoError(t, p.credit(0, len("first")))
	require.Error(t, p.credit(0, len("late")))
}
