package stacks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsGo(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	require.True(t, isGo(own))
	require.False(t, isGo("/bin/sh"))
	require.False(t, isGo("/nonexistent"))
	require.False(t, isGo(t.TempDir()))
	cut := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(cut, []byte("\x7fELF\x02\x01\x01"), 0o700))
	require.False(t, isGo(cut))
}
