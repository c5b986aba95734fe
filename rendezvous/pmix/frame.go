package pmix

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

const (
	headerSize = 16
	// maxFrame bounds a body, in bytes. Commits have some kilobytes, published values less.
	maxFrame = 64 << 20
)

// frame is a message.
type frame struct {
	tag  uint32
	body []byte
}

// readFrame reads a message whose header is in the given byte order. The memory for the body grows with the bytes that
// come, not with the length in the header.
func readFrame(r io.Reader, order binary.ByteOrder, limit uint32) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	n := order.Uint32(header[8:])
	if n > limit {
		return frame{}, fmt.Errorf("a message announces %d bytes; at most %d are allowed", n, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return frame{order.Uint32(header[4:]), body}, err
}

// appendFrame appends a message of the server, with a body in parts.
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
