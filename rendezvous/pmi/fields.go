package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// field is a key=value of a request.
type field struct{ key, value string }

// fields are the fields of a request, in order.
type fields []field

// get returns the first value of a key, "" if it is missing.
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

func (f fields) command() string { return f.get("cmd") }

// need returns a value that must not be missing or empty.
func (f fields) need(key string) (string, error) {
	value := f.get(key)
	if value == "" {
		return "", malformed("%s without %s", printable(f.command()), key)
	}
	return value, nil
}

// number returns a value that must be a whole number within bounds.
func (f fields) number(key string, low, high int) (int, error) {
	n, err := strconv.Atoi(f.get(key))
	if err != nil || n < low || n > high {
		return 0, malformed("%s has %s=%s, not a number from %d to %d", printable(f.command()), key,
			printable(f.get(key)), low, high)
	}
	return n, nil
}

// malformedError is a request that no client sends. It ends the connection.
type malformedError struct {
	why   string
	cause error // nil unless the request is wrong only at this time
}

func (e *malformedError) Error() string { return e.why }
func (e *malformedError) Unwrap() error { return e.cause }

func malformed(format string, args ...any) error {
	return &malformedError{why: fmt.Sprintf(format, args...)}
}

// printable quotes the beginning of what a client sent.
func printable(s string) string {
	if len(s) > 60 {
		return strconv.QuoteToASCII(s[:60]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// word turns a text into a value without spaces and separators.
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
