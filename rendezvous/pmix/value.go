package pmix

import "gorun/rendezvous/world"

// Accessors of values. They report false for a value of another type.

func (v value) string() (string, bool) {
	if v.typ != typeString {
		return "", false
	}
	d := decoder{b: v.raw}
	return d.string(), d.err == nil
}

// integer returns a number of any type.
func (v value) integer() (int64, bool) {
	d := decoder{b: v.raw}
	var n uint64
	switch size := fixedSize(v.typ); {
	case hasType(v.typ):
		n = d.integer()
	case size > 0 && size <= 8:
		n = d.number(v.typ)
	default:
		return 0, false
	}
	return int64(n), d.err == nil
}

// isTrue returns a flag. Without a value it is set.
func (v value) isTrue() bool {
	if v.typ == typeUndef {
		return true
	}
	if s, ok := v.string(); ok {
		return s == "" || s == "1" || s == "true" || s == "t" || s == "yes"
	}
	n, ok := v.integer()
	return ok && n != 0
}

func (v value) bytes() ([]byte, bool) {
	if v.typ != typeByteObject && v.typ != typeCompressedString {
		return nil, false
	}
	d := decoder{b: v.raw}
	return d.bytes(), d.err == nil
}

func (v value) proc() (world.Proc, bool) {
	if v.typ != typeProc {
		return world.Proc{}, false
	}
	d := decoder{b: v.raw}
	return d.proc(), d.err == nil
}

func (v value) infos() ([]info, bool) { return elements(v, typeInfo, (*decoder).info) }

func (v value) procs() ([]world.Proc, bool) { return elements(v, typeProc, (*decoder).proc) }

// elements returns a data array of a type.
func elements[T any](v value, of dataType, read func(*decoder) T) ([]T, bool) {
	d := decoder{b: v.raw}
	if v.typ != typeDataArray || dataType(d.uint16()) != of {
		return nil, false
	}
	all := many(&d, d.count(d.integer()), func() T { return read(&d) })
	return all, d.err == nil
}

// envar returns an environment variable, and the separator between the parts of its value.
func (v value) envar() (name, val string, separator byte, ok bool) {
	if v.typ != typeEnvar {
		return "", "", 0, false
	}
	d := decoder{b: v.raw}
	return d.string(), d.string(), d.uint8(), true
}
