package signature

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes a line of untrusted text fit for a terminal and for [Find]: it drops escape sequences, control bytes
// and trailing blanks, turns tabs and unusual spaces into spaces and invalid UTF-8 into U+FFFD, and cuts the line
// soon after limit bytes.
func Plain(line string, limit int) string {
	special := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' })
	if special < 0 {
		return strings.TrimRight(line[:min(len(line), limit)], " ")
	}
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

// escapeLength returns the length of the escape sequence at the beginning of a line (ECMA-48): ESC [ parameters letter,
// ESC ] text BEL or ESC \, or ESC, intermediates such as ( and one character.
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

// controlLength returns the length of the parameters and the final byte after ESC [.
func controlLength(rest string) int {
	for i := range len(rest) {
		if rest[i] < 0x20 || rest[i] > 0x3f {
			return i + 1
		}
	}
	return len(rest)
}
