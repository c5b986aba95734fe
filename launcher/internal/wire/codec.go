package wire

import (
	"encoding"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"net/netip"
	"reflect"
	"time"

	"gorun/placement"
)

// Message is the body of a control frame: a struct of numbers, flags, texts, times, lists, pointers and structs of
// these. Its type alone decides its encoding.
type Message interface {
	// Type returns the type of its frame.
	Type() Type
}

// PointerTo constrains *T to be a Message.
type PointerTo[T any] interface {
	*T
	Message
}

// A codec writes or reads a message by columns. A message is a column of one value. A column of n structs is one of n
// values for each field, in order; one of lists is a column of their lengths and one of all entries; one of pointers
// is a column of 0 and 1 and one of the values. The columns of numbers and texts at the end begin with their form, as
// neighbours mostly differ by little, and often not at all:
//
//	0           every value is zero or empty
//	1 v v …     each value: of numbers the difference to the one before
//	2 …         texts: a list of the different ones, and a column of which of them each value is
//	8 v         every value is v
//
// Numbers are varints (zigzag), texts have their length before them, times are nanoseconds since 1970.
type codec struct {
	reading bool
	bytes   []byte // written so far, or still to be read
	room    int    // bytes of memory that values may still take
	err     error  // the first one while reading
}

// The forms of a column. A message with a version begins with it as in version 2, which used protocol buffers: each
// side can read the version of the other.
const (
	allZero  = 0
	each     = 1
	distinct = 2
	same     = 8
)

// roomFor is how many bytes of memory a message may take: ours take less than thirty times their size, while a hostile
// one with empty values could take a thousand times as much.
func roomFor(size int) int { return 4<<20 + 32*size }

// maxList bounds the entries of all lists of one field in a message, as exchange.Hub does ranks.
const maxList = 1 << 20

var (
	errBroken   = errors.New("not a message of this version")
	errTooLarge = errors.New("a small message that would take much memory")
)

// appendMessage appends the message that m points to to b.
func appendMessage(b []byte, m any) []byte {
	c := codec{bytes: b}
	c.column(1, only(reflect.ValueOf(m).Elem()))
	return c.bytes
}

// readMessage sets the message that m points to from the result of appendMessage.
func readMessage(b []byte, m any) error {
	c := codec{reading: true, bytes: b, room: roomFor(len(b))}
	c.column(1, only(reflect.ValueOf(m).Elem()))
	if c.err == nil && len(c.bytes) > 0 {
		c.fail(errBroken)
	}
	return c.err
}

func (c *codec) fail(err error) {
	if c.err == nil && err != nil {
		c.err, c.bytes = err, nil
	}
}

// take takes room for some more bytes, and reports whether there was any.
func (c *codec) take(size int) bool {
	if c.room -= size; c.room < 0 {
		c.fail(errTooLarge)
	}
	return c.err == nil
}

// values returns those of a column, by index.
type values func(i int) reflect.Value

func only(v reflect.Value) values { return func(int) reflect.Value { return v } }

func (c *codec) column(n int, at values) {
	if n == 0 || c.err != nil {
		return
	}
	first := at(0)
	switch kind := first.Kind(); {
	case isText(first):
		c.texts(n, at)
	case kind == reflect.Slice:
		c.lists(n, at)
	case kind == reflect.Pointer:
		c.pointers(n, at)
	case kind == reflect.Struct && !isTime(first):
		for field := range first.NumField() {
			if first.Field(field).CanSet() { // exported
				c.column(n, func(i int) reflect.Value { return at(i).Field(field) })
			}
		}
	default:
		c.numbers(n, func(i int) int64 { return number(at(i)) }, func(i int, x int64) { c.fail(setNumber(at(i), x)) })
	}
}

func (c *codec) pointers(n int, at values) {
	var set []reflect.Value
	c.numbers(n, func(i int) int64 {
		if at(i).IsNil() {
			return 0
		}
		set = append(set, at(i).Elem())
		return 1
	}, func(i int, x int64) {
		v := at(i)
		if v.SetZero(); x != 0 && c.take(int(v.Type().Elem().Size())) {
			v.Set(reflect.New(v.Type().Elem()))
			set = append(set, v.Elem())
		}
	})
	c.column(len(set), func(i int) reflect.Value { return set[i] })
}

func (c *codec) lists(n int, at values) {
	total := 0
	c.numbers(n, func(i int) int64 {
		total += at(i).Len()
		return int64(at(i).Len())
	}, func(i int, x int64) {
		v := at(i)
		v.SetZero()
		switch {
		case x < 0 || x > int64(maxList-total):
			c.fail(errBroken)
		case x > 0 && c.take(int(x)*int(v.Type().Elem().Size())):
			v.Set(reflect.MakeSlice(v.Type(), int(x), int(x)))
			total += int(x)
		}
	})
	if n == 1 {
		c.column(total, at(0).Index)
		return
	}
	if c.err != nil {
		return
	}
	entries := make([]reflect.Value, 0, total)
	for i := range n {
		for list, k := at(i), 0; k < list.Len(); k++ {
			entries = append(entries, list.Index(k))
		}
	}
	c.column(total, func(i int) reflect.Value { return entries[i] })
}

func (c *codec) numbers(n int, get func(i int) int64, set func(i int, x int64)) {
	if c.reading {
		c.readNumbers(n, set)
		return
	}
	list := make([]int64, n)
	form := byte(same)
	for i := range list {
		if list[i] = get(i); list[i] != list[0] {
			form = each
		}
	}
	switch {
	case form == each:
		c.bytes = append(c.bytes, each)
		last := int64(0)
		for _, x := range list {
			c.bytes, last = binary.AppendVarint(c.bytes, x-last), x
		}
	case list[0] == 0:
		c.bytes = append(c.bytes, allZero)
	default:
		c.bytes = binary.AppendVarint(append(c.bytes, same), list[0])
	}
}

func (c *codec) readNumbers(n int, set func(i int, x int64)) {
	form, x := c.form(), int64(0)
	if form == same {
		x = c.varint()
	}
	for i := 0; i < n && c.err == nil; i++ {
		if form == each {
			x += c.varint()
		}
		set(i, x)
	}
	if form == distinct {
		c.fail(errBroken)
	}
}

func (c *codec) texts(n int, at values) {
	if c.reading {
		c.readTexts(n, at)
		return
	}
	list := make([]string, n)
	form := byte(same)
	for i := range list {
		if list[i] = text(at(i)); list[i] != list[0] {
			form = each
		}
	}
	switch {
	case form == each:
		c.writeTexts(list)
	case list[0] == "":
		c.bytes = append(c.bytes, allZero)
	default:
		c.writeText(append(c.bytes, same), list[0])
	}
}

func (c *codec) writeText(b []byte, s string) {
	c.bytes = append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// writeTexts writes texts that are not all the same: each, or each distinct one once if these are few.
func (c *codec) writeTexts(list []string) {
	index := make(map[string]int64, len(list))
	known := make([]string, 0, len(list))
	for _, s := range list {
		if _, is := index[s]; !is {
			index[s] = int64(len(known))
			known = append(known, s)
		}
	}
	if 2*len(known) > len(list) {
		c.bytes = append(c.bytes, each)
		for _, s := range list {
			c.writeText(c.bytes, s)
		}
		return
	}
	c.bytes = append(c.bytes, distinct)
	c.column(1, only(reflect.ValueOf(&known).Elem()))
	c.numbers(len(list), func(i int) int64 { return index[list[i]] }, nil)
}

func (c *codec) readTexts(n int, at values) {
	form, s := c.form(), ""
	switch form {
	case same:
		s = c.text()
	case distinct:
		var known []string
		c.column(1, only(reflect.ValueOf(&known).Elem()))
		c.readNumbers(n, func(i int, x int64) {
			if x < 0 || x >= int64(len(known)) {
				c.fail(errBroken)
				return
			}
			c.setText(at(i), known[x])
		})
		return
	}
	for i := 0; i < n && c.err == nil; i++ {
		if form == each {
			s = c.text()
		}
		c.setText(at(i), s)
	}
}

// form reads the form of a column.
func (c *codec) form() byte {
	if len(c.bytes) == 0 {
		c.fail(errBroken)
		return allZero
	}
	form := c.bytes[0]
	c.bytes = c.bytes[1:]
	if form > distinct && form != same {
		c.fail(errBroken)
	}
	return form
}

func (c *codec) varint() int64 {
	x, size := binary.Varint(c.bytes)
	if size <= 0 {
		c.fail(errBroken)
		return 0
	}
	c.bytes = c.bytes[size:]
	return x
}

func (c *codec) text() string {
	size, at := binary.Uvarint(c.bytes)
	if at <= 0 || size > uint64(len(c.bytes)-at) {
		c.fail(errBroken)
		return ""
	}
	if !c.take(int(size)) {
		return ""
	}
	s := string(c.bytes[at : at+int(size)])
	c.bytes = c.bytes[at+int(size):]
	return s
}

// textual is a struct that is encoded as a text.
type textual interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

func isTime(v reflect.Value) bool { return v.Type() == reflect.TypeFor[time.Time]() }

func asTextual(v reflect.Value) textual {
	switch p := v.Addr().Interface().(type) {
	case *placement.CPUSet:
		return p
	case *netip.Addr:
		return p
	case *netip.Prefix:
		return p
	}
	return nil
}

func isText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return true
	case reflect.Slice:
		return v.Type().Elem().Kind() == reflect.Uint8
	case reflect.Struct:
		return asTextual(v) != nil
	}
	return false
}

func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice:
		return string(v.Bytes())
	}
	b, _ := asTextual(v).MarshalText() // none of them fails
	return string(b)
}

func (c *codec) setText(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
		return
	case reflect.Slice:
		v.SetZero()
		if s != "" && c.take(len(s)) {
			v.SetBytes([]byte(s))
		}
		return
	}
	if s == "" {
		v.SetZero()
		return
	}
	err := asTextual(v).UnmarshalText([]byte(s))
	c.fail(err)
	if set, is := v.Interface().(placement.CPUSet); is {
		c.take(set.Size())
	}
}

func number(v reflect.Value) int64 {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	case v.CanFloat():
		return int64(bits.ReverseBytes64(math.Float64bits(v.Float()))) // 0.5 is short then
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	}
	if t := v.Addr().Interface().(*time.Time); !t.IsZero() {
		return t.UnixNano()
	}
	return 0
}

func setNumber(v reflect.Value, x int64) error {
	switch {
	case v.CanInt() && !v.OverflowInt(x):
		v.SetInt(x)
	case v.CanUint() && x >= 0 && !v.OverflowUint(uint64(x)):
		v.SetUint(uint64(x))
	case v.CanFloat():
		f := math.Float64frombits(bits.ReverseBytes64(uint64(x)))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return errBroken // JSON of plans and reports has neither
		}
		v.SetFloat(f)
	case v.Kind() == reflect.Bool && x>>1 == 0:
		v.SetBool(x == 1)
	case v.Kind() == reflect.Struct && x == 0:
		v.SetZero()
	case v.Kind() == reflect.Struct:
		v.Set(reflect.ValueOf(time.Unix(0, x)))
	default:
		return errBroken
	}
	return nil
}
