package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemoveNumbered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"seg.1a.0", "seg.1a.17", "seg.1a.", "seg.1a.x", "seg.1a.1x", "seg.1ab.0", "other.0"} {
		require.NoError(t, os.WriteFile(in(name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(in("seg.1a.2"), 0o700))
	require.NoError(t, os.Symlink("other.0", in("seg.1a.3")))
	RemoveNumbered(in("seg.1a."))
	var left []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{"other.0", "seg.1a.", "seg.1a.1x", "seg.1a.2", "seg.1a.3", "seg.1a.x", "seg.1ab.0"}, left)
	for _, prefix := range []string{"", "other.", "/", dir + "/"} {
		RemoveNumbered(prefix)
	}
	require.FileExists(t, in("other.0"), "a folder's name is no prefix, and a relative one is nobody's")
}
