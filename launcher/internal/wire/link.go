package wire

import (
	"fmt"
	"io"
	"sync"
)

// Link is one end of a connection between head and agent: it reads frames on
// one goroutine and writes them from any.
type Link struct {
	*Reader
	rw    io.ReadWriteCloser
	guard *guard // nil: what comes is not held to the table

	mu  sync.Mutex
	buf []byte
}

// NewLink speaks over rw.
func NewLink(rw io.ReadWriteCloser) *Link {
	return &Link{Reader: NewReader(rw), rw: rw}
}

// keptControl is how much of the memory for a control frame is kept for the next, in
// bytes: the few long ones come once, and there may be thousands of links.
const keptControl = 1 << 10

// Send writes a control frame.
func (l *Link) Send(m Message) error {
	start, ok := m.(*Start)
	l.guard.sends(m.Type(), ok && start.MPI.Offered)
	return l.write(func(b []byte) []byte { return AppendControl(b, 0, m) })
}

// Encode is a control frame as Link.SendEncoded writes it, for a message that many get.
func Encode(m Message) ([]byte, error) {
	b := AppendControl(nil, 0, m)
	return b, checkSize(b)
}

// SendEncoded writes a frame that Encode made. Nobody may change it any more: a connection
// that queues what it is given keeps it as it is.
func (l *Link) SendEncoded(frame []byte) error {
	l.guard.sends(Type(frame[4]), false)
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, ok := l.rw.(interface{ WriteShared(p []byte) (int, error) }); ok {
		_, err := q.WriteShared(frame)
		return err
	}
	_, err := l.rw.Write(frame)
	return err
}

// checkSize refuses a frame that the other side would take for none.
func checkSize(frame []byte) error {
	if size := len(frame) - headerSize; size > MaxBody {
		return fmt.Errorf("wire: a %s frame of %d bytes: at most %d are sent at once", Type(frame[4]), size, MaxBody)
	}
	return nil
}

// Output writes what a rank wrote to a stream.
func (l *Link) Output(rank, stream int, p []byte) error {
	for len(p) > maxOutput {
		if err := l.Output(rank, stream, p[:maxOutput]); err != nil {
			return err
		}
		p = p[maxOutput:]
	}
	return l.write(func(b []byte) []byte { return AppendOutput(b, 0, rank, stream, p) })
}

// Stdin writes bytes for a rank's standard input; none end it.
func (l *Link) Stdin(rank int, p []byte) error {
	return l.write(func(b []byte) []byte { return AppendStdin(b, 0, rank, p) })
}

func (l *Link) write(appendFrame func([]byte) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = appendFrame(l.buf[:0])
	if err := checkSize(l.buf); err != nil {
		return err
	}
	_, err := l.rw.Write(l.buf)
	if t := Type(l.buf[4]); t.isControl() && cap(l.buf) > keptControl {
		l.buf = nil
	}
	return err
}

// Close ends the connection in both directions.
func (l *Link) Close() error { return l.rw.Close() }
