package output

import (
	"strings"

	"gorun/internal/printable"
)

// plain returns a line of a rank as a report shows it: escape sequences (colours, movements) are taken out, the rest is
// sanitised.
func plain(line []byte) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		if n := escapeLen(line[i:]); n > 1 {
			i += n
			continue
		}
		b.WriteByte(line[i])
		i++
	}
	return printable.Text(b.String())
}

// Plain is a line of a rank as a report shows it.
func Plain(line []byte) string { return plain(line) }
