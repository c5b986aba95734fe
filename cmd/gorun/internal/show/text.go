package show

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

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
