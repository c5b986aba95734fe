package pmix

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

const (
	headerSize = 16
	// maxFrame is the largest body, in bytes. Commits are some kilobytes, published values
	// less.
	maxFrame = 64 << 20
	// firstRead is how much room a body gets before any of it is there.
	firstRead = 64 << 10
)

// frame is a message.
type frame struct {
	tag  uint32
	body []byte
}

// readFrame reads a message whose header is in the given byte order. The body gets memory
// as its bytes come, not as its header announces them.
func readFrame(r io.Reader, order binary.ByteOrder, limit uint32) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	f := frame{tag: order.Uint32(header[4:])}
	n := order.Uint32(header[8:])
	if n > limit {
		return frame{}, fmt.Errorf("a message of %d bytes is announced, more than %d", n, limit)
	}
	body, err := readBody(r, int(n))
	f.body = body
	return f, err
}

// readBody reads n bytes.
func readBody(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, firstRead))
	for len(body) < n {
		if len(body) == cap(body) {
			body = append(make([]byte, 0, min(n, 2*cap(body))), body...)
		}
		part := body[len(body):min(n, cap(body))]
		got, err := io.ReadFull(r, part)
		body = body[:len(body)+got]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// appendFrame appends a message of the server's, whose body may come in parts.
func appendFrame(b []byte, tag uint32, body ...[]byte) []byte {
	size := 0
	for _, part := range body {
		size += len(part)
	}
	b = slices.Grow(b, headerSize+size)
	b = binary.BigEndian.AppendUint32(b, 0) // the server's index
	b = binary.BigEndian.AppendUint32(b, tag)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = binary.BigEndian.AppendUint32(b, 0) // padding
	for _, part := range body {
		b = append(b, part...)
	}
	return b
}
