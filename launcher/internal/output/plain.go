package output

import (
	"strings"

	"gorun/internal/printable"
)

// Plain returns a line of a rank as a report shows it: without escape sequences, and with other control bytes as
// printable.Text shows them.
func Plain(line []byte) string {
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
