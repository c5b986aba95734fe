package show

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/internal/printable"
)

// Wrap escapes text, see printable.Text, and breaks it at blanks into lines of at most width characters. A longer word
// has a line of its own.
func Wrap(text string, width int) []string {
	return WrapWords(strings.Fields(printable.Text(text)), " ", width)
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

// Item writes lines from the given column on, the first beside label, or below a label that is too long.
func Item(label string, lines []string, column int) string {
	var b strings.Builder
	if utf8.RuneCountInString(label) > column-1 {
		b.WriteString(label + "\n")
		label = ""
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "%-*s%s\n", column, label, line)
		label = ""
	}
	return b.String()
}

// Clip cuts text to width characters, of which the last is then mark.
func Clip(text string, width int, mark string) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + mark
}

// Join joins the parts that are not empty.
func Join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// Count returns "1 problem", "2 problems".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
