package pmix

import (
	"bytes"
	"errors"
	"fmt"

	"gorun/rendezvous/world"
)

// maxDepth bounds how deep values are nested (arrays of infos with arrays, and so on).
const maxDepth = 16

// errShort is a message that ends within an item.
var errShort = errors.New("the message ends within an item")

// decoder decodes the items of a message. Its first error stays, and after it all items are zero. Results share memory
// with the message. A length in the message allocates nothing before its bytes are there.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

// more reports whether there are more items.
func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) uint8() uint8   { return uint8(d.number(typeUint8)) }
func (d *decoder) uint16() uint16 { return uint16(d.number(typeUint16)) }
func (d *decoder) uint32() uint32 { return uint32(d.number(typeUint32)) }
func (d *decoder) uint64() uint64 { return d.number(typeUint64) }

// number decodes an item of a type with a fixed size of at most 8 bytes.
func (d *decoder) number(typ dataType) (n uint64) {
	raw := d.take(fixedSize(typ))
	for _, b := range raw {
		n = n<<8 | uint64(b)
	}
	if typ >= typeInt8 && typ <= typeInt64 || typ == typeStatus {
		unused := 64 - 8*len(raw)
		n = uint64(int64(n<<unused) >> unused)
	}
	return n
}

// integer decodes an item that is preceded by its real type: size, pid, int, uint.
func (d *decoder) integer() uint64 {
	typ := dataType(d.uint16())
	if typ != typeByte && (typ < typeInt8 || typ > typeUint64 || typ == typeUint) {
		d.fail(fmt.Errorf("type %d in place of an integer", typ))
		return 0
	}
	return d.number(typ)
}

// count checks the number of items that follow. Each takes a byte or more, so that it cannot exceed the bytes.
func (d *decoder) count(n uint64) int {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

// group begins a group and returns how many items it has.
func (d *decoder) group() int { return d.count(uint64(d.uint32())) }

// one begins a group of one item.
func (d *decoder) one() {
	if n := d.group(); d.err == nil && n != 1 {
		d.fail(fmt.Errorf("a group has %d items, not 1", n))
	}
}

// string decodes a string, "" for NULL.
func (d *decoder) string() string { return string(d.text()) }

// text decodes a string as bytes.
func (d *decoder) text() []byte {
	n := d.uint32()
	if n == 0 {
		return nil
	}
	b := d.take(uint64(n))
	if b == nil {
		return nil
	}
	if bytes.IndexByte(b, 0) != len(b)-1 {
		d.fail(errors.New("a string does not end with its NUL"))
		return nil
	}
	return b[:len(b)-1]
}

// bytes decodes a byte object.
func (d *decoder) bytes() []byte { return d.take(d.integer()) }

func (d *decoder) proc() world.Proc { return world.Proc{World: d.string(), Rank: d.rank()} }

// rank decodes a rank. Other special ranks than rankWildcard become ranks that no world has.
func (d *decoder) rank() int {
	if rank := d.uint32(); rank != rankWildcard {
		return int(rank)
	}
	return world.AllRanks
}

// nameAndRank decodes a process in two groups.
func (d *decoder) nameAndRank() world.Proc {
	p := world.Proc{World: d.oneString()}
	d.one()
	p.Rank = d.rank()
	return p
}

func (d *decoder) value() value { return d.valueAt(0) }

func (d *decoder) valueAt(depth int) value {
	typ := dataType(d.uint16())
	before := d.b
	d.skip(typ, depth)
	if d.err != nil {
		return value{}
	}
	n := len(before) - len(d.b)
	return value{typ, before[:n:n]}
}

func (d *decoder) kval() info { return info{key: d.string(), value: d.value()} }

func (d *decoder) info() info {
	return info{key: d.string(), flags: d.uint32(), value: d.value()}
}

func (d *decoder) app() app {
	a := app{command: d.string()}
	a.argv = many(d, d.count(d.integer()), d.string)
	a.env = many(d, d.group(), d.string)
	a.dir = d.string()
	a.maxProcs = int(int32(d.integer()))
	a.infos = many(d, d.count(d.integer()), d.info)
	return a
}

func (d *decoder) query() query {
	q := query{keys: many(d, d.group(), d.string)}
	q.qualifiers = many(d, d.count(d.integer()), d.info)
	return q
}

// many decodes n items.
func many[T any](d *decoder, n int, read func() T) []T {
	var all []T
	for range n {
		item := read()
		if d.err != nil {
			return nil
		}
		all = append(all, item)
	}
	return all
}

// The groups of one item.

func (d *decoder) oneString() string {
	d.one()
	return d.string()
}

func (d *decoder) oneUint8() uint8 {
	d.one()
	return d.uint8()
}

func (d *decoder) oneUint32() uint32 {
	d.one()
	return d.uint32()
}

func (d *decoder) status() status { return status(int32(d.uint32())) }

func (d *decoder) oneStatus() status {
	d.one()
	return d.status()
}

func (d *decoder) oneProc() world.Proc {
	d.one()
	return d.proc()
}

// oneSize decodes the number of items that follow, in whatever groups.
func (d *decoder) oneSize() int {
	d.one()
	return d.count(d.integer())
}

// listed decodes a group {size} and, if that is not 0, a group of as many items.
func listed[T any](d *decoder, read func() T) []T {
	n := d.oneSize()
	if n == 0 {
		return nil
	}
	if has := d.group(); d.err == nil && has != n {
		d.fail(fmt.Errorf("a group has %d items, not %d", has, n))
	}
	return many(d, n, read)
}

func (d *decoder) infoList() []info       { return listed(d, d.info) }
func (d *decoder) procList() []world.Proc { return listed(d, d.proc) }

// stringList decodes a group {size} and as many groups of one string, as in LOOKUP and UNPUBLISH.
func (d *decoder) stringList() []string { return many(d, d.oneSize(), d.oneString) }
