package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both ends of a connection, which the test closes.
func pair(t *testing.T) (ours, client net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		ends[i], err = net.FileConn(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

// isBusy reports whether the goroutine runs.
func (o *Outbox) isBusy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.busy
}

// A message that fits in the socket's buffer is written when Send returns, without a goroutine.
func TestAMessageIsWrittenAtOnce(t *testing.T) {
	ours, client := pair(t)
	o := New(ours, 1<<20)
	for range 100 {
		o.Send([]byte("a message\n"))
		require.False(t, o.isBusy())
	}
	got := make([]byte, 1000)
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("a message\n"), 100), got)
}

// Messages from many goroutines arrive complete, and in order per goroutine, even at a slow reader.
func TestMessagesKeepTheirOrder(t *testing.T) {
	for name, pipe := range map[string]bool{"socket": false, "no socket": true} {
		t.Run(name, func(t *testing.T) {
			ours, client := pair(t)
			if pipe {
				ours, client = net.Pipe()
				t.Cleanup(func() { _, _ = ours.Close(), client.Close() })
			}
			const senders, messages, size = 4, 200, 5000
			o := New(ours, senders*messages*size)
			var sending sync.WaitGroup
			for from := range senders {
				sending.Go(func() {
					b := make([]byte, size)
					for i := range messages {
						binary.BigEndian.PutUint32(b, uint32(from))
						binary.BigEndian.PutUint32(b[4:], uint32(i))
						o.Send(b) // Send does not keep b
					}
				})
			}
			sending.Wait()
			next := make([]int, senders)
			got := make([]byte, size)
			for range senders * messages {
				_, err := io.ReadFull(client, got)
				require.NoError(t, err)
				from := binary.BigEndian.Uint32(got)
				require.Equal(t, next[from], int(binary.BigEndian.Uint32(got[4:])))
				next[from]++
			}
			o.Settle(0)
			require.Zero(t, o.Waiting())
			require.NoError(t, o.Err())
		})
	}
}

// fill sends until the socket is full and bytes are unsent.
func fill(o *Outbox) {
	for o.Waiting() == 0 {
		o.Send(make([]byte, 64<<10))
	}
}

// A client that reads nothing blocks no other, and is disconnected at the limit.
func TestAClientThatDoesNotRead(t *testing.T) {
	const limit = 1 << 20
	ours, client := pair(t)
	o := New(ours, limit)
	for o.Err() == nil {
		o.Send(make([]byte, 64<<10))
		require.LessOrEqual(t, o.Waiting(), limit+64<<10)
	}
	require.ErrorIs(t, o.Err(), ErrUnread)
	_, err := ours.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed, "its reader learns of it")
	o.Send([]byte("more"))
	o.Settle(0)
	read, err := io.Copy(io.Discard, client)
	require.NoError(t, err, "what it was sent before it can read")
	require.Positive(t, read)
}

// One message may exceed the limit.
func TestALongMessage(t *testing.T) {
	ours, client := pair(t)
	o := New(ours, 1000)
	long := bytes.Repeat([]byte("long"), 1<<20)
	o.Send(long)
	require.NoError(t, o.Err())
	got := make([]byte, len(long))
	_, err := io.ReadFull(client, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(long, got))
}

func TestWaitersLearnThatTheConnectionHasEnded(t *testing.T) {
	for name, end := range map[string]func(o *Outbox, ours, client net.Conn){
		"by Close":       func(o *Outbox, _, _ net.Conn) { o.Close() },
		"by the client":  func(_ *Outbox, _, client net.Conn) { _ = client.Close() },
		"by a deadline":  func(_ *Outbox, ours, _ net.Conn) { _ = ours.SetDeadline(time.Now()) },
		"without Outbox": func(_ *Outbox, ours, _ net.Conn) { _ = ours.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ours, client := pair(t)
			o := New(ours, 1<<20)
			fill(o)
			settled := make(chan struct{})
			go func() { o.Settle(0); close(settled) }()
			end(o, ours, client)
			<-settled
			require.Error(t, o.Err())
			require.Zero(t, o.Waiting())
		})
	}
}

// After the client closes, the first write fails.
func TestAClientThatIsGone(t *testing.T) {
	ours, client := pair(t)
	o := New(ours, 1<<20)
	require.NoError(t, client.Close())
	o.Send([]byte("x"))
	require.True(t, errors.Is(o.Err(), unix.EPIPE), "%v", o.Err())
	require.False(t, o.isBusy())
}
