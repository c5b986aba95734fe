package pmix

import (
	"encoding/binary"
	"strconv"

	"gorun/rendezvous/world"
)

// encoder appends items to a buffer that is not described: both sides know the types of items.
type encoder struct{ b []byte }

func (e *encoder) uint8(v uint8)   { e.b = append(e.b, v) }
func (e *encoder) uint16(v uint16) { e.b = binary.BigEndian.AppendUint16(e.b, v) }
func (e *encoder) uint32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) uint64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

// group begins a group of n items.
func (e *encoder) group(n int) { e.uint32(uint32(int32(n))) }

// size encodes a size_t, preceded by its real type.
func (e *encoder) size(n int) {
	e.uint16(uint16(typeUint64))
	e.uint64(uint64(n))
}

// string encodes a string: its length with the final NUL, and both. NULL, of length 0, is never sent.
func (e *encoder) string(s string) {
	e.uint32(uint32(len(s) + 1))
	e.b = append(e.b, s...)
	e.b = append(e.b, 0)
}

// bytes encodes a byte object.
func (e *encoder) bytes(b []byte) {
	e.size(len(b))
	e.b = append(e.b, b...)
}

func (e *encoder) proc(p world.Proc) {
	e.string(p.World)
	if p.Rank == world.AllRanks {
		e.uint32(rankWildcard)
		return
	}
	e.uint32(uint32(p.Rank))
}

func (e *encoder) value(v value) {
	e.uint16(uint16(v.typ))
	e.b = append(e.b, v.raw...)
}

func (e *encoder) info(i info) {
	e.string(i.key)
	e.uint32(i.flags)
	e.value(i.value)
}

// pdata encodes a result of LOOKUP: owner, key and value.
func (e *encoder) pdata(p world.Proc, key string, v value) {
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

func (e *encoder) oneProc(p world.Proc) {
	e.group(1)
	e.proc(p)
}

func (e *encoder) oneBytes(b []byte) {
	e.group(1)
	e.bytes(b)
}

// kvals encodes groups of one kval each, without flags.
func (e *encoder) kvals(kvals ...info) {
	for _, k := range kvals {
		e.group(1)
		e.string(k.key)
		e.value(k.value)
	}
}

func encodeKvals(kvals ...info) []byte {
	var e encoder
	e.kvals(kvals...)
	return e.b
}

// list encodes a group {size} and, if there are any items, a group of all.
func list[T any](e *encoder, items []T, write func(T)) {
	e.oneSize(len(items))
	if len(items) > 0 {
		e.group(len(items))
		each(items, write)
	}
}

func each[T any](items []T, write func(T)) {
	for _, item := range items {
		write(item)
	}
}

func (e *encoder) infoList(infos []info)       { list(e, infos, e.info) }
func (e *encoder) procList(procs []world.Proc) { list(e, procs, e.proc) }

// array encodes a data array.
func array[T any](e *encoder, typ dataType, items []T, write func(T)) dataType {
	e.uint16(uint16(typ))
	e.size(len(items))
	each(items, write)
	return typeDataArray
}

// attr returns an attribute.
func attr[T encodable](key string, v T) info { return info{key: key, value: valueOf(v)} }

// encodable are the Go types of values. int and uint64 are for size_t.
type encodable interface {
	value | string | bool | int | uint16 | uint32 | uint64 | procRank | world.Proc | []byte | []info | []world.Proc
}

func valueOf[T encodable](v T) value {
	var e encoder
	typ := typeUndef
	switch v := any(v).(type) {
	case value:
		return v
	case string:
		typ = typeString
		e.string(v)
	case bool:
		typ = typeBool
		e.uint8(bit(v))
	case int:
		typ = typeSize
		e.size(v)
	case uint64:
		typ = typeSize
		e.size(int(v))
	case uint16:
		typ = typeUint16
		e.uint16(v)
	case uint32:
		typ = typeUint32
		e.uint32(v)
	case procRank:
		typ = typeProcRank
		e.uint32(uint32(v))
	case world.Proc:
		typ = typeProc
		e.proc(v)
	case []byte:
		typ = typeByteObject
		e.bytes(v)
	case []info:
		typ = array(&e, typeInfo, v, e.info)
	case []world.Proc:
		typ = array(&e, typeProc, v, e.proc)
	}
	return value{typ, e.b}
}

// rankList formats ranks as PMIx lists them, "0,1,2".
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
