package printable_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/printable"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain text, grün 日本":   "plain text, grün 日本",
		"tab\tstays":            "tab\tstays",
		"\x1b[31mred\x1b]0;t\a": "^[[31mred^[]0;t^G",
		"a\nb\r\x00\x7f":        "a^Jb^M^@^?",
		"\xff\xc3(":             `\xff\xc3(`,
		"\u009b2J\u202eevil":    `\u009b2J\u202eevil`,
		"\u2028\u2066":          `\u2028\u2066`,
		"\ufffd":                "\ufffd",
	} {
		assert.Equal(t, want, printable.Text(in))
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J\x9b\u009b\r\n\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		safe := printable.Text(s)
		for _, r := range safe {
			require.False(t, unicode.IsControl(r) && r != '\t', "%q keeps %q", safe, r)
		}
		assert.Equal(t, safe, printable.Text(safe), "a second time changes nothing")
	})
}
