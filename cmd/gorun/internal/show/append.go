package show

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// appendJSON appends what encoding/json would. That prepares for all types that a value may contain before it writes
// one, which is most of the time that a short job's record takes.
func appendJSON(b []byte, v reflect.Value) (_ []byte, err error) {
	t := v.Type()
	if t == reflect.TypeFor[time.Time]() { // another time zone would have to be read from a file
		return v.Interface().(time.Time).UTC().AppendFormat(b, `"`+time.RFC3339Nano+`"`), nil
	}
	if t.NumMethod() == 0 || !t.Implements(reflect.TypeFor[json.Marshaler]()) &&
		!t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		switch kind := v.Kind(); {
		case v.CanInt():
			return strconv.AppendInt(b, v.Int(), 10), nil
		case kind == reflect.String && isPlain(v.String()):
			return append(append(append(b, '"'), v.String()...), '"'), nil
		case kind == reflect.Bool:
			return strconv.AppendBool(b, v.Bool()), nil
		case (kind == reflect.Pointer || kind == reflect.Slice) && v.IsNil():
			return append(b, "null"...), nil
		case kind == reflect.Pointer:
			return appendJSON(b, v.Elem())
		case kind == reflect.Struct:
			b, err = appendMembers(append(b, '{'), v)
			return append(bytes.TrimSuffix(b, []byte(",")), '}'), err
		case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
			b = append(b, '[')
			for i := 0; i < v.Len() && err == nil; i++ {
				b, err = appendJSON(b, v.Index(i))
				b = append(b, ',')
			}
			return append(bytes.TrimSuffix(b, []byte(",")), ']'), err
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err = enc.Encode(v.Interface())
	return append(b, escapeControls(bytes.TrimSuffix(text.Bytes(), []byte("\n")))...), err
}

// isPlain reports whether a string needs no escapes.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// member is a field of a struct as a member of an object.
type member struct {
	name  string // with its quotes and colon; "" for an embedded struct
	index int
	omit  string // omitempty, omitzero
}

// appendMembers appends a struct's fields, each with a comma.
func appendMembers(b []byte, v reflect.Value) (_ []byte, err error) {
	for _, m := range membersOf(v.Type()) {
		f := v.Field(m.index)
		switch {
		case m.name == "":
			if f = reflect.Indirect(f); f.IsValid() {
				b, err = appendMembers(b, f)
			}
		case !m.isLeftOut(f):
			b, err = appendJSON(append(b, m.name...), f)
			b = append(b, ',')
		}
		if err != nil {
			break
		}
	}
	return b, err
}

func (m member) isLeftOut(f reflect.Value) bool {
	switch kind := f.Kind(); {
	case m.omit == "omitzero":
		z, ok := f.Interface().(interface{ IsZero() bool })
		return ok && z.IsZero() || f.IsZero()
	case m.omit == "" || kind == reflect.Struct:
		return false
	case kind == reflect.Slice || kind == reflect.Map:
		return f.Len() == 0
	}
	return f.IsZero()
}

var members sync.Map // from a reflect.Type to its []member

func membersOf(t reflect.Type) (list []member) {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	for f := range t.Fields() {
		m := member{index: f.Index[0]}
		var name string
		name, m.omit, _ = strings.Cut(f.Tag.Get("json"), ",")
		if name != "" || !f.Anonymous {
			m.name = `"` + cmp.Or(name, f.Name) + `":`
		}
		if name != "-" && (f.Anonymous || f.IsExported()) {
			list = append(list, m)
		}
	}
	members.Store(t, list)
	return list
}
