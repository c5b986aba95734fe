package pmix

import "fmt"

// fixedSize returns the number of bytes of an item, 0 for types where that varies.
func fixedSize(typ dataType) uint64 {
	if int(typ) < len(fixedSizes) {
		return uint64(fixedSizes[typ])
	}
	return 0
}

// hasType reports whether items of a type are preceded by their real type, an integer's.
func hasType(typ dataType) bool {
	return typ == typeSize || typ == typePID || typ == typeInt || typ == typeUint
}

var fixedSizes = [...]uint8{
	typeBool: 1, typeByte: 1, typeInt8: 1, typeUint8: 1,
	typeInt16: 2, typeUint16: 2,
	typeInt32: 4, typeUint32: 4, typeStatus: 4, typeProcRank: 4, typeInfoDirectives: 4,
	typeInt64: 8, typeUint64: 8, typeTime: 8,
	typeTimeval: 16,
	typePersist: 1, typePointer: 1, typeScope: 1, typeDataRange: 1, typeCommand: 1,
	typeProcState: 1, typeAllocDirective: 1,
	typeDataType: 2, typeIOFChannel: 2,
}

// skip skips one item of a type and checks all of it, so that it can be decoded later without errors.
func (d *decoder) skip(typ dataType, depth int) {
	if typ == typeUndef {
		return
	}
	if size := fixedSize(typ); size > 0 {
		d.take(size)
		return
	}
	if depth > maxDepth {
		d.fail(fmt.Errorf("values are nested deeper than %d", maxDepth))
		return
	}
	switch typ {
	case typeString, typeFloat, typeDouble: // floating-point numbers are text
		d.text()
	case typeSize, typePID, typeInt, typeUint:
		d.integer()
	case typeByteObject, typeCompressedString:
		d.bytes()
	case typeValue:
		d.valueAt(depth)
	case typeDataArray:
		if of, n := dataType(d.uint16()), d.integer(); of != typeUndef && n > 0 {
			d.skipMany(of, d.count(n), depth+1)
		}
	case typeApp:
		d.skipMany(typeString, 1, depth)
		d.skipMany(typeString, d.count(d.integer()), depth)
		d.skipMany(typeString, d.group(), depth)
		d.skipMany(typeString, 1, depth)
		d.integer()
		d.skipMany(typeInfo, d.count(d.integer()), depth+1)
	case typeQuery:
		d.skipMany(typeString, d.group(), depth)
		d.skipMany(typeInfo, d.count(d.integer()), depth+1)
	default:
		var parts []dataType
		if int(typ) < len(layouts) {
			parts = layouts[typ]
		}
		if parts == nil {
			d.fail(fmt.Errorf("type %d is not one of the encoding v3", typ))
		}
		for _, part := range parts {
			d.skip(part, depth+1)
		}
	}
}

// layouts are the types that are sequences of others.
var layouts = [...][]dataType{
	typeProc:     {typeString, typeProcRank},
	typeKval:     {typeString, typeValue},
	typeInfo:     {typeString, typeInfoDirectives, typeValue},
	typePdata:    {typeProc, typeKval},
	typeBuffer:   {typeByte, typeByteObject},
	typeProcInfo: {typeProc, typeString, typeString, typePID, typeProcState}, // host, program
	typeEnvar:    {typeString, typeString, typeByte},                         // name, value, separator
}

func (d *decoder) skipMany(typ dataType, n, depth int) {
	for range n {
		if d.err != nil {
			return
		}
		d.skip(typ, depth)
	}
}
