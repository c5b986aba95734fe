package printable

import (
	"strings"
	"unicode/utf8"
)

// Bounds of what a message repeats, in characters. Paths and lists of the usual
// length stay whole: they are there to be copied.
const (
	longWord = 200  // a word or a quoted text that is longer is cut,
	kept     = 60   // to its first so many
	longLine = 4000 // and a line that is longer still loses its middle
)

// Short cuts what is too long to be read out of a message: words and texts within
// quotation marks that somebody's file or command line brought. What the message
// says of them stays.
func Short(s string) string {
	if len(s) <= longWord {
		return s
	}
	var b strings.Builder
	quotes := true // a quotation mark that has no partner has escaped ones behind it alone
	for rest := s; rest != ""; {
		size := piece(rest, quotes)
		quotes = quotes && (rest[0] != '"' || size > 1)
		b.WriteString(cut(rest[:size]))
		rest = rest[size:]
	}
	return withoutMiddle(b.String())
}

// piece is the length of what s begins with: a quoted text, a word up to a blank or
// quotation mark, or a single other byte. Without quotes no text is quoted.
func piece(s string, quotes bool) int {
	switch {
	case s[0] == ' ':
		return 1
	case s[0] == '"' && !quotes:
		return 1
	case s[0] == '"':
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return 1
	}
	if end := strings.IndexAny(s, " \""); end > 0 {
		return end
	}
	return len(s)
}

// cut shortens a piece; the mark that ends a quoted text stays, and the colon
// behind a word.
func cut(piece string) string {
	if utf8.RuneCountInString(piece) <= longWord {
		return piece
	}
	end := ""
	if last := piece[len(piece)-1:]; last == `"` || last == ":" || last == "," || last == ";" {
		end = last
	}
	return string([]rune(piece)[:kept]) + "…" + end
}

func withoutMiddle(line string) string {
	if utf8.RuneCountInString(line) <= longLine {
		return line
	}
	runes := []rune(line)
	return string(runes[:longLine/2]) + " … " + string(runes[len(runes)-longLine/2:])
}
