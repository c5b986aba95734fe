package pmix

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// items has an item of each type, and its encoding.
var items = []struct {
	name string
	typ  dataType
	hex  string
}{
	{"undefined", typeUndef, ""},
	{"bool", typeBool, "01"},
	{"byte", typeByte, "7f"},
	{"string", typeString, "00000003 6869 00"},
	{"null", typeString, "00000000"},
	{"size", typeSize, "000f 0000000000000102"},
	{"pid", typePID, "000e 00001f8a"},
	{"int", typeInt, "0009 ffffffff"},
	{"int8", typeInt8, "80"},
	{"int16", typeInt16, "8000"},
	{"int32", typeInt32, "80000000"},
	{"int64", typeInt64, "8000000000000000"},
	{"uint", typeUint, "000e 00000001"},
	{"uint8", typeUint8, "ff"},
	{"uint16", typeUint16, "ffff"},
	{"uint32", typeUint32, "ffffffff"},
	{"uint64", typeUint64, "ffffffffffffffff"},
	{"float is text", typeFloat, "00000009 312e353030303030 00"},
	{"double is text", typeDouble, "00000009 312e353030303030 00"},
	{"timeval", typeTimeval, "0000000000000001 0000000000000002"},
	{"time", typeTime, "0000000000000001"},
	{"status", typeStatus, "ffffffd2"},
	{"value", typeValue, "000e 00000007"},
	{"proc", typeProc, "00000002 6e00 fffffffe"},
	{"app", typeApp, "00000002 6100 0009 00000001 00000002 6100 00000000 00000000 0009 00000002 000f 0000000000000000"},
	{"info", typeInfo, "00000002 6b00 00000001 0001 01"},
	{"pdata", typePdata, "00000002 6e00 00000000 00000002 6b00 0001 01"},
	{"buffer", typeBuffer, "01 000f 0000000000000002 abcd"},
	{"byte object", typeByteObject, "000f 0000000000000002 abcd"},
	{"kval", typeKval, "00000002 6b00 000d 0003"},
	{"persistence", typePersist, "04"},
	{"pointer", typePointer, "01"},
	{"scope", typeScope, "03"},
	{"range", typeDataRange, "05"},
	{"command", typeCommand, "0c"},
	{"directives", typeInfoDirectives, "00000001"},
	{"data type", typeDataType, "0003"},
	{"state", typeProcState, "05"},
	{"proc info", typeProcInfo, "00000002 6e00 00000000 00000002 6800 00000002 7000 000e 00000001 05"},
	{"array", typeDataArray, "0028 000f 0000000000000002 00000000 00000001"},
	{"empty array", typeDataArray, "0018 000f 0000000000000000"},
	{"rank", typeProcRank, "fffffffe"},
	{"query", typeQuery, "00000001 00000002 6b00 000f 0000000000000001 00000002 7100 00000000 0001 01"},
	{"compressed string", typeCompressedString, "000f 0000000000000001 ab"},
	{"allocation", typeAllocDirective, "01"},
	{"channel", typeIOFChannel, "0003"},
	{"variable", typeEnvar, "00000002 4100 00000002 4200 3a"},
}

func TestItems(t *testing.T) {
	for _, item := range items {
		t.Run(item.name, func(t *testing.T) {
			raw, err := hex.DecodeString(strings.ReplaceAll(item.hex, " ", ""))
			require.NoError(t, err)
			var e encoder
			e.value(value{item.typ, raw})
			e.uint8(0xaa)
			d := decoder{b: e.b}
			v := d.value()
			require.NoError(t, d.err)
			require.Equal(t, item.typ, v.typ)
			require.Equal(t, raw, append([]byte{}, v.raw...))
			require.Equal(t, uint8(0xaa), d.uint8(), "what comes after is still there")
			for n := range raw {
				d := decoder{b: append([]byte{byte(item.typ >> 8), byte(item.typ)}, raw[:n]...)}
				d.value()
				require.Error(t, d.err, "cut off after %d bytes", n)
			}
		})
	}
}

func TestTypesThatAreNotKnown(t *testing.T) {
	for _, typ := range []dataType{29, 44, 47, 500, 0xffff} {
		d := decoder{b: []byte{byte(typ >> 8), byte(typ), 0, 0, 0, 0}}
		d.value()
		require.ErrorContains(t, d.err, "is not one of the encoding v3")
	}
}

func TestAnnouncedLengthsAllocateNothing(t *testing.T) {
	for name, write := range map[string]func(*encoder){
		"string":      func(e *encoder) { e.uint16(uint16(typeString)); e.uint32(0x7fffffff) },
		"bytes":       func(e *encoder) { e.uint16(uint16(typeByteObject)); e.size(1 << 60) },
		"array":       func(e *encoder) { e.uint16(uint16(typeDataArray)); e.uint16(uint16(typeInfo)); e.size(1 << 60) },
		"query":       func(e *encoder) { e.uint16(uint16(typeQuery)); e.uint32(0x7fffffff) },
		"empty bytes": func(e *encoder) { e.uint16(uint16(typeByteObject)); e.uint16(uint16(typeInt64)); e.uint64(1 << 63) },
	} {
		var e encoder
		write(&e)
		allocated := testing.AllocsPerRun(1, func() {
			d := decoder{b: e.b}
			d.value()
			require.ErrorIs(t, d.err, errShort, name)
		})
		require.Less(t, allocated, 20.0, name)
	}
	d := decoder{b: []byte{0xff, 0xff, 0xff, 0xff, 1}}
	require.Zero(t, d.group())
	require.ErrorIs(t, d.err, errShort)
}

func TestNestedTooDeep(t *testing.T) {
	v := valueOf(true)
	for range maxDepth + 2 {
		v = valueOf([]info{attr("k", v)})
	}
	var e encoder
	e.value(v)
	d := decoder{b: e.b}
	d.value()
	require.ErrorContains(t, d.err, "nested deeper")
}

func TestStringsEndWithNUL(t *testing.T) {
	for _, bad := range []string{"00000002 6161", "00000003 610000", "00000001 61"} {
		raw, err := hex.DecodeString(strings.ReplaceAll(bad, " ", ""))
		require.NoError(t, err)
		d := decoder{b: raw}
		d.string()
		require.ErrorContains(t, d.err, "NUL", bad)
	}
}

func TestLists(t *testing.T) {
	infos := []info{{key: "a", flags: 1, value: valueOf(true)}, attr("b", "x")}
	procs := []world.Proc{proc("n", 0), proc("n", world.AllRanks)}
	var e encoder
	e.infoList(infos)
	e.procList(procs)
	e.infoList(nil)
	e.procList(nil)
	e.oneSize(2)
	e.oneString("k1")
	e.oneString("k2")
	d := decoder{b: e.b}
	require.Equal(t, infos, d.infoList())
	require.Equal(t, procs, d.procList())
	require.Empty(t, d.infoList())
	require.Empty(t, d.procList())
	require.Equal(t, []string{"k1", "k2"}, d.stringList())
	require.NoError(t, d.err)
	require.False(t, d.more())
}

func TestAppsAndQueries(t *testing.T) {
	var e encoder
	e.string("./worker")
	e.uint16(uint16(typeInt32))
	e.uint32(2)
	e.string("./worker")
	e.string("-v")
	e.uint32(1)
	e.string("A=1")
	e.string("/tmp")
	e.uint16(uint16(typeInt32))
	e.uint32(3)
	e.size(1)
	e.info(attr("k", true))
	whole := e.b
	d := decoder{b: whole}
	require.Equal(t, app{
		command: "./worker", argv: []string{"./worker", "-v"}, env: []string{"A=1"}, dir: "/tmp", maxProcs: 3,
		infos: []info{attr("k", true)},
	}, d.app())
	require.NoError(t, d.err)
	skipped := decoder{b: whole}
	skipped.skip(typeApp, 0)
	require.NoError(t, skipped.err)
	require.Empty(t, skipped.b, "skip and decode agree")

	e = encoder{}
	e.uint32(1)
	e.string("pmix.qry.ns")
	e.size(0)
	d = decoder{b: e.b}
	require.Equal(t, query{keys: []string{"pmix.qry.ns"}}, d.query())
	require.NoError(t, d.err)
}

func TestValues(t *testing.T) {
	for _, v := range []struct {
		value value
		shown string
	}{
		{valueOf("x"), "x"},
		{valueOf(uint16(7)), "7"},
		{valueOf(uint32(7)), "7"},
		{valueOf(1 << 40), "1099511627776"},
		{value{typeStatus, []byte{0xff, 0xff, 0xff, 0xd2}}, "-46"},
		{valueOf(procRank(rankWildcard)), "4294967294"},
		{valueOf(true), "1"},
		{valueOf(proc("n", 3)), "n.3"},
	} {
		require.Equal(t, v.shown, v.value.shown())
	}
	b, ok := valueOf([]byte{1, 2}).bytes()
	require.True(t, ok)
	require.Equal(t, []byte{1, 2}, b)
	infos, ok := valueOf([]info{attr("a", uint32(1))}).infos()
	require.True(t, ok)
	require.Equal(t, "a", infos[0].key)
	require.True(t, value{}.isTrue(), "a flag without a value is set")
	require.True(t, valueOf("true").isTrue())
	require.False(t, valueOf(false).isTrue())
	require.False(t, valueOf("no").isTrue())
}
