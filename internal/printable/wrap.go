package printable

import (
	"strings"
	"unicode/utf8"
)

// Wrap escapes text as [Text] does and breaks it at blanks into lines of at most width characters. A longer word has a
// line of its own.
func Wrap(text string, width int) []string {
	return WrapWords(strings.Fields(Text(text)), " ", width)
}

// WrapWords joins words by separator into lines of at most width characters, at least one line.
func WrapWords(words []string, separator string, width int) []string {
	lines := []string{""}
	for i, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case i == 0:
			*last = word
		case utf8.RuneCountInString(*last+separator+word) > width:
			lines = append(lines, word)
		default:
			*last += separator + word
		}
	}
	return lines
}
