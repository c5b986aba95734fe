package wire

import (
	"fmt"
	"io"
	"sync"
)

// Link is one end of a connection between head and agent. One goroutine may read frames, and any write them.
type Link struct {
	*Reader
	rw    io.ReadWriteCloser
	guard *guard // nil: any frame may come
	sent  func(Type)

	mu  sync.Mutex
	buf []byte
}

// NewLink returns a link over rw, which Close closes.
func NewLink(rw io.ReadWriteCloser) *Link {
	return &Link{Reader: NewReader(rw), rw: rw, sent: func(Type) {}}
}

// OnSend has f called before a control frame is sent, without a lock. Call it before the first frame.
func (l *Link) OnSend(f func(Type)) { l.sent = f }

// keptControl is how many bytes of a control frame's buffer are kept for the next: long ones are rare, and there may
// be thousands of links.
const keptControl = 1 << 10

// Send writes a control frame.
func (l *Link) Send(m Message) error {
	l.sent(m.Type())
	start, ok := m.(*Start)
	l.guard.sending(m.Type(), ok && start.MPI.Offered)
	return l.write(func(b []byte) []byte { return AppendControl(b, m) })
}

// Encode returns a control frame for [Link.SendEncoded], for a message to many nodes.
func Encode(m Message) ([]byte, error) {
	b := AppendControl(nil, m)
	return b, checkSize(b)
}

// SendEncoded writes a frame that Encode returned. A connection may keep the slice, which must not change any more.
func (l *Link) SendEncoded(frame []byte) error {
	l.sent(Type(frame[4]))
	l.guard.sending(Type(frame[4]), false)
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, ok := l.rw.(interface{ WriteShared(p []byte) (int, error) }); ok {
		_, err := q.WriteShared(frame)
		return err
	}
	_, err := l.rw.Write(frame)
	return err
}

// checkSize refuses a frame that the other side would refuse.
func checkSize(frame []byte) error {
	if size := len(frame) - headerSize; size > MaxBody {
		return fmt.Errorf("wire: a %s frame of %d bytes: at most %d are allowed", Type(frame[4]), size, MaxBody)
	}
	return nil
}

// Output writes bytes that a rank wrote to a stream.
func (l *Link) Output(rank, stream int, p []byte) error {
	for len(p) > maxOutput {
		if err := l.Output(rank, stream, p[:maxOutput]); err != nil {
			return err
		}
		p = p[maxOutput:]
	}
	return l.write(func(b []byte) []byte { return AppendOutput(b, rank, stream, p) })
}

// Stdin writes bytes for a rank's standard input, or its end if none exist.
func (l *Link) Stdin(rank int, p []byte) error {
	return l.write(func(b []byte) []byte { return AppendStdin(b, rank, p) })
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
