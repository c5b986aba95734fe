package wire

import (
	"io"
	"sync"
)

// Link is one end of a connection between head and agent: it reads frames on
// one goroutine and writes them from any.
type Link struct {
	*Reader
	rw io.ReadWriteCloser

	mu  sync.Mutex
	buf []byte
}

// NewLink speaks over rw.
func NewLink(rw io.ReadWriteCloser) *Link {
	return &Link{Reader: NewReader(rw), rw: rw}
}

// Send writes a control frame.
func (l *Link) Send(t Type, v any) error {
	return l.write(func(b []byte) ([]byte, error) { return AppendControl(b, t, 0, v) })
}

// Output writes what a rank wrote to a stream.
func (l *Link) Output(rank, stream int, p []byte) error {
	return l.write(func(b []byte) ([]byte, error) { return AppendOutput(b, 0, rank, stream, p), nil })
}

// EOF says that a rank's stream has ended.
func (l *Link) EOF(rank, stream int) error {
	return l.write(func(b []byte) ([]byte, error) { return appendStream(b, TypeEOF, 0, rank, stream, nil), nil })
}

// Stdin writes bytes for a rank's standard input; none end it.
func (l *Link) Stdin(rank int, p []byte) error {
	return l.write(func(b []byte) ([]byte, error) { return AppendStdin(b, 0, rank, p), nil })
}

func (l *Link) write(build func([]byte) ([]byte, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := build(l.buf[:0])
	if err != nil {
		return err
	}
	l.buf = b
	_, err = l.rw.Write(b)
	return err
}

// Close ends the connection in both directions.
func (l *Link) Close() error { return l.rw.Close() }
