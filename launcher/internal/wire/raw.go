package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Raw is a text of any bytes: a path or a name, which need not be UTF-8. JSON
// would replace what is not, so it travels in base64.
type Raw string

// MarshalText writes base64.
func (r Raw) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(r)), nil
}

// UnmarshalText reads what MarshalText wrote.
func (r *Raw) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	*r = Raw(b)
	return err
}

// List is an argument vector or an environment: texts of any bytes but zero. It
// travels as one base64 text of C strings, which costs less than a JSON array.
type List []string

// MarshalJSON writes the list, null for nil.
func (l List) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("null"), nil
	}
	var b []byte
	for _, s := range l {
		b = append(append(b, s...), 0)
	}
	out := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2), '"')
	return append(base64.StdEncoding.AppendEncode(out, b), '"'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *List) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil || b == nil {
		*l = nil
		return err
	}
	*l = List{}
	for len(b) > 0 {
		s, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return errors.New("a list whose last text has no end")
		}
		*l = append(*l, string(s))
		b = rest
	}
	return nil
}
