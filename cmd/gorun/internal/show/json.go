package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"gorun/internal/printable"
	"gorun/internal/version"
)

// Envelope holds the first fields of every document that gorun writes as JSON.
type Envelope struct {
	// Schema is the version of the kind's fields. It increases if a field is removed or changes its meaning.
	Schema int `json:"schema"`
	// Gorun is the version of gorun that wrote the document.
	Gorun string `json:"gorun"`
	// Kind says which other fields there are.
	Kind string `json:"kind"`
}

// schema is the version of all kinds.
const schema = 1

// JSON writes a document of a kind as one indented object: the envelope, then the fields of the struct value. Bytes
// that are not UTF-8 become U+FFFD, and characters that a terminal would obey are escaped.
func JSON(w io.Writer, kind string, value any) error {
	line, err := document(kind, value)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, line, "", "  "); err != nil {
		return err
	}
	_, err = w.Write(indented.Bytes())
	return err
}

// Line writes a document as JSON does, on one line.
func Line(w io.Writer, kind string, value any) error {
	line, err := document(kind, value)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

func document(kind string, value any) ([]byte, error) {
	text, err := appendMembers([]byte("{"), reflect.ValueOf(Envelope{schema, version.String(), kind}))
	head := len(text)
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() == reflect.Struct && err == nil {
		text, err = appendMembers(text, v)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", kind, err)
	}
	if len(text) == head {
		return nil, errors.New("write " + kind + " as JSON: not an object with fields")
	}
	text[len(text)-1] = '}'
	return append(text, '\n'), nil
}

// escapeControls writes a \u escape for each character that printable.Text rejects and encoding/json does not escape.
// Such characters occur only in strings.
func escapeControls(text []byte) []byte {
	const del = 0x7f
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= del }) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if r >= del && printable.Text(string(r)) != string(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.Bytes()
}
