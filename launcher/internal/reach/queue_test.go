package reach

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A peer that reads nothing costs a limited amount of memory, and then loses its connection.
func TestAPeerThatTakesNothingIsLost(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	q := Queued(ours)
	defer q.Close()
	frame := make([]byte, 1<<20)
	var err error
	for range 3 * maxQueued / len(frame) {
		if _, err = q.Write(frame); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errFull)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// The same limit applies to shared frames.
func TestQueuedBoundsWhatIsShared(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	shared := Queued(near).(interface{ WriteShared(p []byte) (int, error) })
	p, err := make([]byte, maxQueued/2), error(nil)
	for range 2*sharedFactor + 2 {
		if _, err = shared.WriteShared(p); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errFull)
}
