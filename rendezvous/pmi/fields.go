package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// field is key=value of a request.
type field struct{ key, value string }

// fields are those of one request, in its order.
type fields []field

// get gives the first value of a key; "": it is missing or empty.
func (f fields) get(key string) string {
	value, _ := f.find(key)
	return value
}

func (f fields) find(key string) (string, bool) {
	for i := range f {
		if f[i].key == key {
			return f[i].value, true
		}
	}
	return "", false
}

// command is the name of the request.
func (f fields) command() string { return f.get("cmd") }

// need gives a value that the request cannot be without.
func (f fields) need(key string) (string, error) {
	value := f.get(key)
	if value == "" {
		return "", malformed("%s without %s", printable(f.command()), key)
	}
	return value, nil
}

// number gives a value that is a whole number within bounds.
func (f fields) number(key string, low, high int) (int, error) {
	n, err := strconv.Atoi(f.get(key))
	if err != nil || n < low || n > high {
		return 0, malformed("%s has %s=%s, which is no number from %d to %d", printable(f.command()), key,
			printable(f.get(key)), low, high)
	}
	return n, nil
}

// malformedError is a request as no client sends it. The connection ends.
type malformedError struct {
	why   string
	cause error // nil: what it sends is wrong in itself
}

func (e *malformedError) Error() string { return e.why }
func (e *malformedError) Unwrap() error { return e.cause }

func malformed(format string, args ...any) error {
	return &malformedError{why: fmt.Sprintf(format, args...)}
}

// printable quotes what a client sent, the beginning of it if it is long.
func printable(s string) string {
	if len(s) > 60 {
		return strconv.QuoteToASCII(s[:60]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// word makes one word of a text, for a value that has neither spaces nor the signs between
// fields.
func word(text string) string {
	if len(text) > 200 {
		text = text[:200]
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || r == ';' || r == '=' || r == '\\' {
			return '_'
		}
		return r
	}, text)
}
