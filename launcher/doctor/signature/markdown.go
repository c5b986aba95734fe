package signature

import (
	"fmt"
	"strings"
)

// Markdown returns the table of all signatures, family by family, for docs/reference/errors.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| id | means | line |\n| --- | --- | --- |\n")
	for _, family := range Families() {
		for _, s := range InFamily(family) {
			line := "exit code"
			switch {
			case len(s.Codes) > 0:
				line = "exit code " + strings.Join(s.Codes, ", ")
			case len(s.Lines) == 0 && len(s.Vague) > 0:
				line = "`" + s.Vague[0] + "`"
			case len(s.Lines) > 0:
				line = "`" + strings.ReplaceAll(s.Lines[0], "`", "'") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.ID, cell(s.Means), strings.ReplaceAll(line, "|", `\|`))
		}
	}
	return b.String()
}

// cell escapes text for a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }
