package munge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextOf(t *testing.T) {
	const said = "STATUS:          0\nUID:             7\n\n{\"a\":\"\\n\\n\"}\n\nb"
	text, err := parseOutput([]byte(said), 7)
	require.NoError(t, err)
	require.Equal(t, "{\"a\":\"\\n\\n\"}\n\nb", string(text))
	_, err = parseOutput([]byte(said), 8)
	require.EqualError(t, err, "user 7 has sealed it, and not user 8")
	for _, broken := range []string{"", "\n\n", "STATUS: 0\n\ntext", "UID: 7"} {
		_, err = parseOutput([]byte(broken), 7)
		require.Error(t, err, "%q", broken)
	}
}

// Commands that fail say why in their first line.
func TestCommandsThatFail(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := Find("")
	require.ErrorContains(t, err, "is not in PATH")
	for _, name := range []string{"munge", "unmunge"} {
		text := "#!/bin/sh\necho " + name + ": did you start munged? >&2\necho more >&2\nexit 6\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	m, err := Find("/run/socket")
	require.NoError(t, err)
	_, err = m.Seal(t.Context(), []byte("x"))
	require.EqualError(t, err, "munge: did you start munged?")
	_, err = m.Open(t.Context(), []byte("x"))
	require.EqualError(t, err, "unmunge: did you start munged?")
}
