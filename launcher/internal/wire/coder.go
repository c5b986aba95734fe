package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"
)

// Message is the body of a control frame.
type Message interface {
	// Type is the type of the frame that carries it.
	Type() Type
	fielder
}

// PointerTo is how a generic function says that *T is a Message.
type PointerTo[T any] interface {
	*T
	Message
}

// fielder is a message or a part of one. Its fields method names every field to
// a coder, which writes it or, if it is the one that was just read, sets it: one
// description for both directions, and no reflection, whose first look at all
// these types costs a tenth of the start of a job.
type fielder interface{ fields(c *coder) }

// coder writes messages as protocol buffers, or reads them. Numbers are sint64,
// texts and lists of texts are bytes of any kind, a field that has its zero value
// is left out, an unknown one is skipped, and so is one of an unexpected kind.
// See https://protobuf.dev/programming-guides/encoding. The library of that name
// is not used: it reads the program's own file whenever the program starts.
type coder struct {
	reading bool
	out     []byte // what was written

	// The field that was just read.
	num    int
	kind   kind
	number int64  // of kind varint or fixed64
	bytes  []byte // of kind sized; not ours to keep
	err    error  // of a message within this one

	shared *Shared // nil: everything that is read has memory of its own
	room   *int    // bytes of memory that what is read may still take
}

// roomFor is how much memory a message may take when it is read, in bytes: ours take less than
// twenty times their size, and what is empty within one may take a hundred times as much.
func roomFor(size int) int { return 1<<20 + 32*size }

// take reports whether there is room for some more bytes.
func (c *coder) take(size int) bool {
	if *c.room -= size; *c.room < 0 {
		c.err = errTooLarge
	}
	return c.err == nil
}

// kind is protocol buffers' wire type.
type kind uint8

const (
	varint  kind = 0
	fixed64 kind = 1
	sized   kind = 2
	fixed32 kind = 5 // not ours, skipped
)

var (
	errBroken   = errors.New("not a protocol buffer")
	errTooLarge = errors.New("a small message that would take much memory")
)

// appendMessage appends the fields of m to b.
func appendMessage(b []byte, m fielder) []byte {
	c := coder{out: b}
	m.fields(&c)
	return c.out
}

// readMessage sets the fields of m from what appendMessage wrote.
func readMessage(b []byte, m fielder) error {
	room := roomFor(len(b))
	c := coder{reading: true, room: &room}
	return c.read(b, m)
}

func (c *coder) read(b []byte, m fielder) error {
	for len(b) > 0 {
		n := c.next(b)
		if n <= 0 {
			return errBroken
		}
		b = b[n:]
		if m.fields(c); c.err != nil {
			return fmt.Errorf("field %d: %w", c.num, c.err)
		}
	}
	return nil
}

// next reads one field and returns its size, or no more than 0 if it is none.
func (c *coder) next(b []byte) int {
	tag, at := binary.Uvarint(b)
	if at <= 0 || tag>>3 > math.MaxInt32 {
		return 0
	}
	c.num, c.kind = int(tag>>3), kind(tag&7)
	n := c.value(b[at:])
	if n <= 0 {
		return 0
	}
	return at + n
}

// value reads a field's value and returns its size, or no more than 0.
func (c *coder) value(b []byte) (n int) {
	switch c.kind {
	case varint:
		c.number, n = binary.Varint(b)
	case fixed64:
		if n = 8; len(b) >= n {
			c.number = int64(binary.LittleEndian.Uint64(b))
		}
	case sized:
		size, at := binary.Uvarint(b)
		if at <= 0 || size > uint64(len(b)-at) {
			return 0
		}
		n = at + int(size)
		c.bytes = b[at:n]
	case fixed32:
		n = 4
	}
	if n > len(b) {
		return 0
	}
	return n
}

// is reports whether the field that was just read has this number and kind.
func (c *coder) is(num int, kind kind) bool {
	return c.reading && c.num == num && c.kind == kind
}

func (c *coder) writeTag(num int, k kind) {
	c.out = binary.AppendUvarint(c.out, uint64(num)<<3|uint64(k))
}

// integer is a field of any integer type.
type integer interface {
	~int | ~int32 | ~int64 | ~uint8
}

func number[T integer](c *coder, num int, p *T) {
	switch {
	case c.is(num, varint):
		*p = T(c.number)
	case !c.reading && *p != 0:
		c.writeNumber(num, int64(*p))
	}
}

func numbers[T integer](c *coder, num int, p *[]T) {
	if c.is(num, varint) && c.take(int(unsafe.Sizeof(T(0)))) {
		*p = append(*p, T(c.number))
	}
	if !c.reading {
		for _, v := range *p {
			c.writeNumber(num, int64(v))
		}
	}
}

func (c *coder) writeNumber(num int, v int64) {
	c.writeTag(num, varint)
	c.out = binary.AppendVarint(c.out, v) // the zigzag of sint64
}

func (c *coder) flag(num int, p *bool) {
	v := 0
	if *p {
		v = 1
	}
	if number(c, num, &v); c.reading { // else others may be writing the same message
		*p = v != 0
	}
}

func (c *coder) float(num int, p *float64) {
	switch {
	case c.is(num, fixed64):
		if *p = math.Float64frombits(uint64(c.number)); math.IsNaN(*p) || math.IsInf(*p, 0) {
			c.err = errBroken // JSON of plans and reports has neither
		}
	case !c.reading && *p != 0:
		c.writeFixed(num, math.Float64bits(*p))
	}
}

// moment is a time in nanoseconds since 1970.
func (c *coder) moment(num int, p *time.Time) {
	switch {
	case c.is(num, fixed64):
		*p = time.Unix(0, c.number)
	case !c.reading && !p.IsZero():
		c.writeFixed(num, uint64(p.UnixNano()))
	}
}

func (c *coder) writeFixed(num int, v uint64) {
	c.writeTag(num, fixed64)
	c.out = binary.LittleEndian.AppendUint64(c.out, v)
}

func text[T ~string](c *coder, num int, p *T) {
	switch {
	case c.is(num, sized):
		if c.take(len(c.bytes)) {
			*p = T(c.bytes)
		}
	case !c.reading && *p != "":
		writeText(c, num, string(*p))
	}
}

func (c *coder) texts(num int, p *[]string) {
	if c.is(num, sized) && c.take(int(unsafe.Sizeof(""))+len(c.bytes)) {
		*p = append(*p, string(c.bytes))
	}
	if !c.reading {
		for _, s := range *p {
			writeText(c, num, s)
		}
	}
}

func writeText[T ~string | ~[]byte](c *coder, num int, s T) {
	c.writeTag(num, sized)
	c.out = append(binary.AppendUvarint(c.out, uint64(len(s))), s...)
}

func (c *coder) blob(num int, p *[]byte) {
	switch {
	case c.is(num, sized):
		if c.take(len(c.bytes)) {
			*p = append([]byte(nil), c.bytes...)
		}
	case !c.reading && len(*p) > 0:
		writeText(c, num, *p)
	}
}

// part is a message within a message.
func (c *coder) part(num int, m fielder) {
	switch {
	case c.err != nil:
	case c.is(num, sized):
		part := coder{reading: true, shared: c.shared, room: c.room}
		c.err = part.read(c.bytes, m)
	case !c.reading:
		c.writePart(num, m)
	}
}

// writePart writes m and then moves it to make room for its size.
func (c *coder) writePart(num int, m fielder) {
	c.writeTag(num, sized)
	at := len(c.out)
	m.fields(c)
	size := len(c.out) - at
	c.out = binary.AppendUvarint(c.out, uint64(size))
	room := len(c.out) - at - size
	copy(c.out[at+room:], c.out[at:at+size])
	binary.AppendUvarint(c.out[:at], uint64(size))
}

// pointer makes *T a fielder.
type pointer[T any] interface {
	*T
	fielder
}

// optional is a part that may be missing.
func optional[T any, P pointer[T]](c *coder, num int, p **T) {
	perhaps(c, num, p, func(v *T) fielder { return P(v) })
}

// parts is a list of messages.
func parts[T any, P pointer[T]](c *coder, num int, p *[]T) {
	foreign(c, num, p, func(v *T) fielder { return P(v) })
}

// perhaps is optional for another package's type, as one of ours sees it.
func perhaps[T any](c *coder, num int, p **T, as func(*T) fielder) {
	if c.is(num, sized) && c.take(int(unsafe.Sizeof(**p))) {
		*p = new(T)
	}
	if *p != nil {
		c.part(num, as(*p))
	}
}

// foreign is parts for another package's type, as one of ours sees it.
func foreign[T any](c *coder, num int, p *[]T, as func(*T) fielder) {
	if c.is(num, sized) && c.take(int(unsafe.Sizeof((*p)[0]))) {
		*p = append(*p, *new(T))
		c.part(num, as(&(*p)[len(*p)-1]))
	}
	if !c.reading {
		for i := range *p {
			c.part(num, as(&(*p)[i]))
		}
	}
}
