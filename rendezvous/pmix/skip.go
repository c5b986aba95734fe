package pmix

import "fmt"

// fixedSize is how many bytes an item takes, for types where that is always the same; 0 for
// all others.
var fixedSize = [...]uint8{
	typeBool: 1, typeByte: 1, typeInt8: 1, typeUint8: 1,
	typeInt16: 2, typeUint16: 2,
	typeInt32: 4, typeUint32: 4, typeStatus: 4, typeProcRank: 4, typeInfoDirectives: 4,
	typeInt64: 8, typeUint64: 8, typeTime: 8,
	typeTimeval: 16,
	typePersist: 1, typePointer: 1, typeScope: 1, typeDataRange: 1, typeCommand: 1,
	typeProcState: 1, typeAllocDirective: 1,
	typeDataType: 2, typeIOFChannel: 2,
}

// skip passes over one item of a type. It looks at all of it, so that what comes after a
// nil error can be decoded.
func (d *decoder) skip(typ dataType, depth int) {
	if typ == typeUndef {
		return
	}
	if int(typ) < len(fixedSize) && fixedSize[typ] > 0 {
		d.take(uint64(fixedSize[typ]))
		return
	}
	if depth > maxDepth {
		d.fail(fmt.Errorf("values are nested deeper than %d", maxDepth))
		return
	}
	switch typ {
	case typeString, typeFloat, typeDouble: // numbers that are not whole are text
		d.text()
	case typeSize, typePID, typeInt, typeUint:
		d.integer()
	case typeByteObject, typeCompressedString:
		d.bytes()
	case typeProc:
		d.skipProc()
	default:
		d.skipNested(typ, depth+1)
	}
}

// skipNested is skip for types that are made of others.
func (d *decoder) skipNested(typ dataType, depth int) {
	switch typ {
	case typeValue:
		d.valueAt(depth)
	case typeKval:
		d.skipKeyed(depth)
	case typeInfo:
		d.text()
		d.uint32()
		d.valueAt(depth)
	case typePdata:
		d.skipProc()
		d.skipKeyed(depth)
	case typeBuffer:
		d.uint8()
		d.bytes()
	case typeProcInfo:
		d.skipProc()
		d.skipMany(typeString, 2, depth) // host, program
		d.integer()                      // pid
		d.uint8()                        // state
	case typeEnvar:
		d.skipMany(typeString, 2, depth) // name, value
		d.uint8()                        // separator
	case typeDataArray:
		d.skipArray(depth)
	case typeApp:
		d.skipApp(depth)
	case typeQuery:
		d.skipMany(typeString, d.group(), depth)
		d.skipMany(typeInfo, d.count(d.integer()), depth)
	default:
		d.fail(fmt.Errorf("type %d is not one of the encoding v3", typ))
	}
}

func (d *decoder) skipProc() {
	d.text()
	d.uint32()
}

func (d *decoder) skipKeyed(depth int) {
	d.text()
	d.valueAt(depth)
}

func (d *decoder) skipApp(depth int) {
	d.text()
	d.skipMany(typeString, d.count(d.integer()), depth)
	d.skipMany(typeString, d.group(), depth)
	d.text()
	d.integer()
	d.skipMany(typeInfo, d.count(d.integer()), depth)
}

func (d *decoder) skipArray(depth int) {
	typ, n := dataType(d.uint16()), d.integer()
	if typ == typeUndef || n == 0 {
		return
	}
	d.skipMany(typ, d.count(n), depth)
}

func (d *decoder) skipMany(typ dataType, n, depth int) {
	for range n {
		if d.err != nil {
			return
		}
		d.skip(typ, depth)
	}
}
