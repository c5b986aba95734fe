// Package shellwords writes words so that a shell reads them back: sh, bash, dash, ksh and zsh.
package shellwords

import (
	"fmt"
	"strings"
)

// Join writes an argument vector as one line.
func Join(words []string) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = Quote(word)
	}
	return strings.Join(list, " ")
}

// Quote writes one word, in one line: with control characters it is $'…', which POSIX.1-2024,
// bash, ksh and zsh know. No word begins a comment, a pattern or a command.
func Quote(word string) string {
	plain, control := word != "" && word[0] != '=', false // to zsh =ls is the path of ls
	for i := range len(word) {
		plain = plain && Plain(word[i])
		control = control || isControl(word[i])
	}
	switch {
	case plain:
		return word
	case control:
		return escaped(word)
	}
	return literal(word)
}

// QuotePOSIX writes one word for every shell, dash too: a line end in it stays one.
func QuotePOSIX(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return literal(word)
	}
	return Quote(word)
}

func literal(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Plain reports whether a byte means nothing to a shell anywhere in a word, but for = at its begin.
func Plain(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("+,-./:=@_%", c) >= 0
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

func escaped(word string) string {
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
