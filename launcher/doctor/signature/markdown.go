package signature

import (
	"fmt"
	"strings"
)

// Markdown returns the table of all signatures, family by family, for docs/errors.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| id | means | line |\n| --- | --- | --- |\n")
	for _, family := range Families() {
		for _, s := range InFamily(family) {
			line := "exit status"
			if len(s.Lines) > 0 {
				line = "`" + strings.ReplaceAll(s.Lines[0], "`", "'") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.ID, cell(s.Means), strings.ReplaceAll(line, "|", `\|`))
		}
	}
	return b.String()
}

// cell makes text fit for a cell of a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }
