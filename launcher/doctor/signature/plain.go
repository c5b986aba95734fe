package signature

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes a line of foreign text fit for a terminal and for [Find]: escape sequences and control bytes are dropped,
// tabs and unusual spaces become spaces, what is no UTF-8 becomes U+FFFD, blanks at the end go, and the line ends soon
// after limit bytes.
func Plain(line string, limit int) string {
	var b strings.Builder
	for len(line) > 0 && b.Len() < limit {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == 0x1b || r == 0x9b:
			size = escapeLength(line, size)
		case r == '\t':
			b.WriteString("    ")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case unicode.IsSpace(r) && r != '\n' && r != '\r':
			b.WriteByte(' ')
		}
		line = line[size:]
	}
	return strings.TrimRight(b.String(), " ")
}

// escapeLength is the length of the escape sequence that a line begins with (ECMA-48):
// ESC [ parameters letter, ESC ] text up to BEL or ESC \, or ESC, signs such as ( and one character.
func escapeLength(line string, size int) int {
	rest := line[size:]
	switch {
	case size > 1: // the eight-bit form of ESC [
		return size + controlLength(rest)
	case strings.HasPrefix(rest, "["):
		return size + 1 + controlLength(rest[1:])
	case strings.HasPrefix(rest, "]"):
		end := strings.IndexAny(rest, "\a\x1b")
		if end < 0 {
			return len(line)
		}
		if strings.HasPrefix(rest[end:], "\x1b\\") {
			end++
		}
		return size + end + 1
	}
	intermediate := len(rest) - len(strings.TrimLeft(rest, " !\"#$%&'()*+,-./"))
	_, final := utf8.DecodeRuneInString(rest[intermediate:])
	return size + intermediate + final
}

// controlLength is the length of parameters and final byte after ESC [.
func controlLength(rest string) int {
	for i := range len(rest) {
		if rest[i] < 0x20 || rest[i] > 0x3f {
			return i + 1
		}
	}
	return len(rest)
}
