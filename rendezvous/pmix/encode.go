package pmix

import (
	"encoding/binary"
	"strconv"
)

// encoder appends items to a buffer that is not described: nothing says of which type an
// item is, both sides know. It cannot fail.
type encoder struct{ b []byte }

func (e *encoder) uint8(v uint8)   { e.b = append(e.b, v) }
func (e *encoder) uint16(v uint16) { e.b = binary.BigEndian.AppendUint16(e.b, v) }
func (e *encoder) uint32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) uint64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

// group begins a group of n items.
func (e *encoder) group(n int) { e.uint32(uint32(int32(n))) }

// size is a size_t, before which its real type stands.
func (e *encoder) size(n int) {
	e.uint16(uint16(typeUint64))
	e.uint64(uint64(n))
}

// string is its length with the NUL that ends it, and both. NULL, of length 0, is never sent.
func (e *encoder) string(s string) {
	e.uint32(uint32(len(s) + 1))
	e.b = append(e.b, s...)
	e.b = append(e.b, 0)
}

// bytes is a byte object.
func (e *encoder) bytes(b []byte) {
	e.size(len(b))
	e.b = append(e.b, b...)
}

func (e *encoder) proc(p proc) {
	e.string(p.nspace)
	e.uint32(p.rank)
}

func (e *encoder) value(v value) {
	e.uint16(uint16(v.typ))
	e.b = append(e.b, v.raw...)
}

func (e *encoder) kval(k kval) {
	e.string(k.key)
	e.value(k.value)
}

func (e *encoder) info(i info) {
	e.string(i.key)
	e.uint32(i.flags)
	e.value(i.value)
}

// pdata is an answer to LOOKUP: who published what under which key.
func (e *encoder) pdata(p proc, key string, v value) {
	e.proc(p)
	e.string(key)
	e.value(v)
}

// The groups of one item.

func (e *encoder) oneStatus(s status) {
	e.group(1)
	e.uint32(uint32(s))
}

func (e *encoder) oneSize(n int) {
	e.group(1)
	e.size(n)
}

func (e *encoder) oneString(s string) {
	e.group(1)
	e.string(s)
}

func (e *encoder) oneProc(p proc) {
	e.group(1)
	e.proc(p)
}

func (e *encoder) oneBytes(b []byte) {
	e.group(1)
	e.bytes(b)
}

func (e *encoder) oneKval(key string, v value) {
	e.group(1)
	e.kval(kval{key, v})
}

// infoList is a group {size} and, if there are any, a group of that many infos.
func (e *encoder) infoList(infos []info) {
	e.oneSize(len(infos))
	if len(infos) == 0 {
		return
	}
	e.group(len(infos))
	for _, i := range infos {
		e.info(i)
	}
}

// procList is a group {size} and, if there are any, a group of that many processes.
func (e *encoder) procList(procs []proc) {
	e.oneSize(len(procs))
	if len(procs) == 0 {
		return
	}
	e.group(len(procs))
	for _, p := range procs {
		e.proc(p)
	}
}

// newValue makes a value of what write encodes.
func newValue(typ dataType, write func(*encoder)) value {
	var e encoder
	write(&e)
	return value{typ, e.b}
}

func stringValue(s string) value {
	return newValue(typeString, func(e *encoder) { e.string(s) })
}

func boolValue(v bool) value {
	if v {
		return value{typeBool, []byte{1}}
	}
	return value{typeBool, []byte{0}}
}

func uint16Value(n int) value {
	return newValue(typeUint16, func(e *encoder) { e.uint16(uint16(n)) })
}

func uint32Value(n int) value {
	return newValue(typeUint32, func(e *encoder) { e.uint32(uint32(n)) })
}

func sizeValue(n int) value {
	return newValue(typeSize, func(e *encoder) { e.size(n) })
}

func rankValue(r uint32) value {
	return newValue(typeProcRank, func(e *encoder) { e.uint32(r) })
}

func procValue(p proc) value {
	return newValue(typeProc, func(e *encoder) { e.proc(p) })
}

func statusValue(s status) value {
	return newValue(typeStatus, func(e *encoder) { e.uint32(uint32(s)) })
}

func bytesValue(b []byte) value {
	return newValue(typeByteObject, func(e *encoder) { e.bytes(b) })
}

// infoArrayValue is a data array of infos.
func infoArrayValue(infos []info) value {
	return newValue(typeDataArray, func(e *encoder) {
		e.uint16(uint16(typeInfo))
		e.size(len(infos))
		for _, i := range infos {
			e.info(i)
		}
	})
}

// procArrayValue is a data array of processes.
func procArrayValue(procs []proc) value {
	return newValue(typeDataArray, func(e *encoder) {
		e.uint16(uint16(typeProc))
		e.size(len(procs))
		for _, p := range procs {
			e.proc(p)
		}
	})
}

// rankList is ranks as PMIx lists them, "0,1,2".
func rankList(ranks []int) string {
	var b []byte
	for i, r := range ranks {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r), 10)
	}
	return string(b)
}
