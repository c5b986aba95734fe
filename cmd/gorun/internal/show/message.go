package show

import (
	"io"
	"strings"
	"unicode/utf8"

	"gorun/internal/printable"
)

// minMessage is the least width that messages are broken at.
const minMessage = 40

// Messages formats gorun's own lines for where they go.
type Messages struct {
	Width  int // lines are not broken if 0
	Colour bool
}

// MessagesFor breaks lines on terminals only: elsewhere a message is one line, which people search for.
func MessagesFor(w io.Writer) Messages { return Messages{Width: Width(w), Colour: Colour(w)} }

// Wrap breaks the lines of text at blanks, and keeps their indentation. Further lines of a message, of a row of a
// report and of quoted output are indented as far as its text.
func (m Messages) Wrap(text string) string {
	if m.Width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		b.WriteString(strings.Join(wrapLine(line, max(m.Width, minMessage)), "\n"))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Failure is Wrap for the report of a failed job, with a bold red headline.
func (m Messages) Failure(report string) string {
	head, rest, _ := strings.Cut(report, "\n")
	if head = m.Wrap(head); m.Colour && head != "" {
		head = "\x1b[1;31m" + head + "\x1b[0m"
	}
	if report == "" {
		return ""
	}
	return head + "\n" + m.Wrap(rest)
}

func wrapLine(line string, width int) []string {
	if utf8.RuneCountInString(line) <= width {
		return []string{line}
	}
	lead := line[:len(line)-len(strings.TrimLeft(line, " "))]
	below := lead + "  "
	if strings.HasPrefix(line, "  ") && len(line) > rowColumn && line[rowColumn-1] == ' ' {
		lead, below = line[:rowColumn], strings.Repeat(" ", rowColumn)
	}
	if text, quoted := strings.CutPrefix(line[len(lead):], quoteMark); quoted {
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		lead, below = lead+quoteMark+indent, below+quoteMark+indent
	}
	lines := printable.Wrap(line[len(lead):], width-utf8.RuneCountInString(below))
	for i := range lines {
		lines[i] = below + lines[i]
	}
	lines[0] = lead + lines[0][len(below):]
	return lines
}

// Parts of the rows of a report.
const (
	rowColumn = 11 // where the text begins
	quoteMark = "│ "
)
