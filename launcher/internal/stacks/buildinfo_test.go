package stacks

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuildInformation(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	f, err := os.Open(own)
	require.NoError(t, err)
	defer f.Close()
	info, ok := section(f, ".go.buildinfo")
	require.True(t, ok)
	require.Contains(t, string(info), "path\tgorun/launcher/internal/stacks.test\n")
	_, ok = section(f, ".go.buildinf")
	require.False(t, ok, "the beginning of a name is another name")

	require.True(t, isGo(own))
	require.False(t, isGo("/bin/sh"))
	require.False(t, isGo("/nonexistent"))
	require.False(t, isGo(t.TempDir()))
}

func FuzzSection(f *testing.F) {
	table := make([]byte, 3*elfHeaderSize)
	copy(table, elfMagic)
	table[40], table[58], table[60], table[62] = elfHeaderSize, elfSectionSize, 2, 1
	f.Add(table)
	f.Fuzz(func(t *testing.T, file []byte) {
		text, ok := section(bytes.NewReader(file), ".go.buildinfo")
		require.Equal(t, ok, text != nil)
		require.LessOrEqual(t, len(text), sectionLimit)
	})
}
