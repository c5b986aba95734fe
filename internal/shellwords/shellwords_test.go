package shellwords

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var words = map[string]string{
	"a-b,/c:1": "a-b,/c:1", "a=b": "a=b", "=eth0": "'=eth0'", "": "''", "a b": "'a b'", "it's": `'it'\''s'`,
	"$x": "'$x'", "^lo": "'^lo'", "[::1]": "'[::1]'",
	"~": "'~'", "#": "'#'", "!x": "'!x'", `a\b`: `'a\b'`, "ä": "'ä'", "a\nb": `$'a\nb'`, "a\r\\'": `$'a\015\\\''`,
	"\x7f1": `$'\1771'`, "*": "'*'", "a;b": "'a;b'",
}

func TestQuote(t *testing.T) {
	for word, want := range words {
		assert.Equal(t, want, Quote(word))
	}
	assert.Equal(t, "a '' 'b c'", Join([]string{"a", "", "b c"}))
	assert.Empty(t, Join(nil))
}

func TestShellsParseQuotedWords(t *testing.T) {
	for _, shell := range []string{"bash", "sh", "dash", "zsh", "ksh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		for word := range words {
			lines := []string{QuotePOSIX(word) + " end"}
			if !strings.HasPrefix(Quote(word), "$'") || shell == "bash" || shell == "zsh" || shell == "ksh" {
				lines = append(lines, Join([]string{word, "end"}))
			}
			for _, line := range lines {
				out, err := exec.Command(path, "-c", "printf '%s|' "+line).Output()
				require.NoError(t, err, "%s: %q", shell, word)
				assert.Equal(t, word+"|end|", string(out), shell)
			}
		}
	}
}
