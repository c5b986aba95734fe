package bootstrap

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// image writes the beginning of a program for an architecture, enough to identify it. It is an ELF header, and a
// loader segment if it has one.
func image(t *testing.T, path, arch, loader string) {
	machine := map[string]byte{"amd64": 0x3e, "arm64": 0xb7, "riscv64": 0xf3}[arch]
	b := make([]byte, 64+56, 256)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18], b[20], b[52] = 2, machine, 1, 64 // executable, machine, version, header's size
	if loader != "" {
		b[32], b[54], b[56] = 64, 56, 1 // one segment, directly following the header
		b[64], b[64+8], b[64+32], b[64+40] = 3, 120, byte(len(loader)+1), byte(len(loader)+1)
		b = append(b, loader+"\x00"...)
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, b, 0o755))
}

// A gorun without agents copies itself, whatever lies beside it.
func TestBuildsWithoutAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gorun")
	image(t, path, "arm64", "")
	image(t, path+"-linux-amd64", "amd64", "")
	p, err := FindBuilds(path, "v1")
	require.NoError(t, err)
	require.Len(t, p.Builds, 1)
	require.Equal(t, path, p.Builds[0].Path)
	require.Equal(t, "arm64", p.Builds[0].Arch)
}

func TestReadsWhatAProgramNeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	image(t, path, "amd64", "/lib64/ld.so")
	b, err := ReadBuild(path)
	require.NoError(t, err)
	require.Equal(t, "/lib64/ld.so", b.Loader)
	require.EqualValues(t, 120+13, b.Size)

	image(t, path, "riscv64", "")
	_, err = ReadBuild(path)
	require.ErrorContains(t, err, "gorun knows amd64 and arm64")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh"), 0o700))
	_, err = ReadBuild(path)
	require.ErrorContains(t, err, "is not a Linux program")

	require.Equal(t, runtime.GOARCH, plain(t).Arch)
}

func TestNamesOfVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2-3-gabc-dirty": "v1.2-3-gabc-dirty", "../x y": "_x_y",
		"": "unknown", "--": "unknown", strings.Repeat("a", 99): strings.Repeat("a", 64),
	} {
		require.Equal(t, want, dirName(version), version)
	}
}
