// Package printable prepares text for messages: it escapes text from outside, shortens long text and merges numbers.
package printable

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text escapes what a terminal would obey in text from a rank, a host, a path or a peer. ASCII control characters
// except tabs become ^X (escape is ^[, newline ^J), bytes that are not UTF-8 become \xNN, and C1 controls, line
// separators and marks of the direction of writing become \uNNNN. Text is idempotent.
func Text(s string) string {
	bad := strings.IndexFunc(s, unsafeRune)
	if bad < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	b.WriteString(s[:bad])
	for i := bad; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == utf8.RuneError || !unsafeRune(r):
			b.WriteString(s[i : i+size])
		case r <= 0x7f:
			b.WriteByte('^')
			b.WriteByte(byte(r) ^ 0x40)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// unsafeRune includes the replacement character, since strings.IndexFunc yields it for invalid bytes.
func unsafeRune(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\t'
	case r < 0x7f:
		return false
	case r < 0xa0:
		return true
	case r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return r == utf8.RuneError
}
