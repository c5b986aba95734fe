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

func TestFindsTheBuildsThatAreAtHand(t *testing.T) {
	const ld = "/lib64/ld.so"
	for _, test := range []struct {
		name  string
		files string // NAME:ARCH[:LOADER]; the first is the program
		want  string // ARCH:NAME of each build
	}{
		{"alone", "bin/gorun:amd64", "amd64:gorun"},
		{"the other beside it", "bin/gorun:amd64 bin/gorun-linux-arm64:arm64", "amd64:gorun arm64:gorun-linux-arm64"},
		{
			"make static", "bin/gorun:amd64 build/gorun-linux-arm64:arm64 build/gorun-linux-amd64:amd64",
			"amd64:gorun arm64:gorun-linux-arm64",
		},
		{"a static one serves better", "bin/gorun:arm64:" + ld + " bin/gorun-linux-arm64:arm64", "arm64:gorun-linux-arm64"},
		{"not static, and alone", "bin/gorun:amd64:" + ld, "amd64:gorun"},
		{"wrong content", "bin/gorun:amd64 bin/gorun-linux-arm64:amd64", "amd64:gorun"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range strings.Fields(test.files) {
				part := strings.Split(f+":", ":")
				image(t, filepath.Join(dir, part[0]), part[1], part[2])
			}
			p, err := FindBuilds(filepath.Join(dir, "bin/gorun"), "v1")
			require.NoError(t, err)
			var got []string
			for _, b := range p.Builds {
				got = append(got, b.Arch+":"+filepath.Base(b.Path))
			}
			require.Equal(t, test.want, strings.Join(got, " "))
		})
	}
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

	own, err := agent()
	require.NoError(t, err)
	require.Equal(t, runtime.GOARCH, own.Builds[0].Arch)
}

func TestNamesOfVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2-3-gabc-dirty": "v1.2-3-gabc-dirty", "../x y": "_x_y",
		"": "unknown", "--": "unknown", strings.Repeat("a", 99): strings.Repeat("a", 64),
	} {
		require.Equal(t, want, dirName(version), version)
	}
}
