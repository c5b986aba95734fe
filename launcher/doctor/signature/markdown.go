package signature

import (
	"fmt"
	"strings"
)

// Markdown returns all signatures, family by family, for docs/reference/errors.md. The heading of each one is its ID,
// which is therefore its anchor.
func Markdown() string {
	var b strings.Builder
	for _, family := range Families() {
		fmt.Fprintf(&b, "### %s\n\n", family)
		for _, s := range InFamily(family) {
			m := Match{Signature: &s}
			fmt.Fprintf(&b, "#### %s\n\n%s\n\n", s.ID, escape(s.title()))
			if lines := append(append([]string{}, s.Lines...), s.Vague...); len(lines) > 0 {
				fmt.Fprintf(&b, "```text\n%s\n```\n\n", strings.Join(lines, "\n"))
			}
			for _, row := range [][2]string{{"Cause", s.Cause}, {"Check", s.Check}, {"Fix", s.Fix}} {
				fmt.Fprintf(&b, "- %s: %s\n", row[0], escape(m.Marked(row[1])))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// title returns the meaning with the exit codes and the kind, as a sentence.
func (s *Signature) title() string {
	title := strings.ToUpper(s.Means[:1]) + s.Means[1:] + "."
	if len(s.Codes) > 0 {
		title += " Exit code " + strings.Join(s.Codes, ", ") + "."
	}
	if s.Kind != Cause {
		title += " Kind: " + s.Kind.String() + "."
	}
	return title
}

// escape replaces what Markdown would read as HTML or emphasis, outside of commands.
func escape(text string) string {
	pieces := strings.Split(text, "`")
	for i := range pieces {
		if i%2 == 0 {
			pieces[i] = strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(pieces[i])
		}
	}
	return strings.Join(pieces, "`")
}
