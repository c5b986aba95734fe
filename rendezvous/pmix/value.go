package pmix

// What values hold. A value of another type than was asked for holds nothing.

// string is what a string holds.
func (v value) string() (string, bool) {
	if v.typ != typeString {
		return "", false
	}
	d := decoder{b: v.raw}
	return d.string(), d.err == nil
}

// integer is the number that any type of numbers holds.
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

// isTrue is what a flag holds; one without a value is set.
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

// bytes is what a byte object holds.
func (v value) bytes() ([]byte, bool) {
	if v.typ != typeByteObject && v.typ != typeCompressedString {
		return nil, false
	}
	d := decoder{b: v.raw}
	return d.bytes(), d.err == nil
}

// proc is the process that a value names.
func (v value) proc() (proc, bool) {
	if v.typ != typeProc {
		return proc{}, false
	}
	d := decoder{b: v.raw}
	return d.proc(), d.err == nil
}

// infos is an array of infos.
func (v value) infos() ([]info, bool) { return elements(v, typeInfo, (*decoder).info) }

// procs is an array of processes.
func (v value) procs() ([]proc, bool) { return elements(v, typeProc, (*decoder).proc) }

// elements are those of a data array of that type.
func elements[T any](v value, of dataType, read func(*decoder) T) ([]T, bool) {
	d := decoder{b: v.raw}
	if v.typ != typeDataArray || dataType(d.uint16()) != of {
		return nil, false
	}
	all := many(&d, d.count(d.integer()), func() T { return read(&d) })
	return all, d.err == nil
}

// envar is an environment variable, with what stands between its parts.
func (v value) envar() (name, val string, separator byte, ok bool) {
	if v.typ != typeEnvar {
		return "", "", 0, false
	}
	d := decoder{b: v.raw}
	return d.string(), d.string(), d.uint8(), true
}
