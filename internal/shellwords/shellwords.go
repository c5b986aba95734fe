// Package shellwords quotes words for shells: sh, bash, dash, ksh and zsh.
package shellwords

import (
	"fmt"
	"strings"
)

// Join formats an argument vector as a command line.
func Join(words []string) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = Quote(word)
	}
	return strings.Join(list, " ")
}

// Quote quotes a word within one line: with control characters as $'…', which POSIX.1-2024, bash, ksh and zsh know,
// but dash does not. No word is a comment, a pattern or a command.
func Quote(word string) string {
	plain, control := word != "" && word[0] != '=', false // zsh replaces =ls by the path of ls
	for i := range len(word) {
		plain = plain && Plain(word[i])
		control = control || isControl(word[i])
	}
	switch {
	case plain:
		return word
	case control:
		return escape(word)
	}
	return literal(word)
}

// QuotePOSIX quotes a word for every shell, also dash. Line breaks stay line breaks.
func QuotePOSIX(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r < 0x80 && isControl(byte(r)) }) {
		return literal(word)
	}
	return Quote(word)
}

func literal(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Plain reports whether a byte has no meaning to shells anywhere in a word, except = at its beginning.
func Plain(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("+,-./:=@_%", c) >= 0
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

func escape(word string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case isControl(c):
			fmt.Fprintf(&b, `\%03o`, c)
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
