package nccl

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReadLibrary(t *testing.T) {
	const minimum = "NCCL_DEBUG\x00NCCL_SOCKET_IFNAME\x00"
	padding := strings.Repeat("x\x00", scanBlock/2-30)
	for name, row := range map[string]struct {
		file  string
		want  Found
		wrong bool
	}{
		"NCCL": {
			file: minimum + "NCCL version 2.18.3+cuda12.1\x00", want: Found{
				NCCL,
				Version{2, 18, 3},
				"2.18.3+cuda12.1",
				[]string{"NCCL_DEBUG", "NCCL_SOCKET_IFNAME"},
			},
		},
		"RCCL": {
			file: minimum + "RCCL_TREES\x00RCCL version : 2.21.5\x00",
			want: Found{RCCL, Version{2, 21, 5}, "2.21.5", []string{"NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "RCCL_TREES"}},
		},
		"no version": {file: minimum, want: Found{NCCL, Version{}, "", []string{"NCCL_DEBUG", "NCCL_SOCKET_IFNAME"}}},
		"words of a message": {
			file: minimum + "set NCCL_ALGO=ring, not TORCH_NCCL_X, NCCL_\x00NCCL version info\x00",
			want: Found{NCCL, Version{}, "", []string{"NCCL_ALGO", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME"}},
		},
		"another library": {file: "NCCL_DEBUG\x00TORCH_NCCL_SOCKET_IFNAME", wrong: true},
		"nothing":         {wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := ReadLibrary(strings.NewReader(row.file), int64(len(row.file)))
			if row.wrong {
				require.ErrorIs(t, err, ErrNoLibrary)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, found)
			for shift := range 80 { // a name may cross a block boundary
				file := padding + strings.Repeat("\x00", shift) + row.file
				moved, err := ReadLibrary(strings.NewReader(file), int64(len(file)))
				require.NoError(t, err)
				require.Equal(t, row.want, moved, "shifted by %d", shift)
			}
		})
	}
}

// loaderCache encodes a loader's cache.
func loaderCache(files map[string]string) []byte {
	texts, entries := []byte{}, []byte{}
	start := 48 + 24*len(files)
	put := func(text string) uint32 {
		at := start + len(texts)
		texts = append(texts, text+"\x00"...)
		return uint32(at)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry := make([]byte, 24)
		binary.LittleEndian.PutUint32(entry[4:], put(name))
		binary.LittleEndian.PutUint32(entry[8:], put(files[name]))
		entries = append(entries, entry...)
	}
	header := make([]byte, 48)
	copy(header, "glibc-ld.so.cache1.1")
	binary.LittleEndian.PutUint32(header[20:], uint32(len(files)))
	binary.LittleEndian.PutUint32(header[24:], uint32(len(texts)))
	return bytes.Join([][]byte{[]byte("ld.so-1.7.0\x00old"), header, entries, texts}, nil)
}

func TestFindLibraries(t *testing.T) {
	root := fstest.MapFS{
		"opt/nccl/lib/libnccl.so.2":                                         {},
		"opt/cached/libnccl.so.2":                                           {},
		"opt/rocm/lib/librccl.so.1":                                         {},
		"usr/lib/x86_64-linux-gnu/libnccl.so.2":                             {},
		"v[env/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2":   {},
		"v[env/lib64/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2": {},
		"rocmvenv/lib/python3.12/site-packages/torch/lib/librccl.so":        {},
		"debian/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2":     {},
		"opt/folder/libnccl.so.2/inside":                                    {},
		"etc/ld.so.cache": {
			Data: loaderCache(map[string]string{
				"libnccl.so.2": "/opt/cached/libnccl.so.2", "libm.so.6": "/lib/libm.so.6",
				"libnccl.so": "/gone",
			}),
		},
	}
	everywhere := []string{
		"/opt/cached/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
		"/opt/rocm/lib/librccl.so.1",
	}
	for name, row := range map[string]struct {
		environ map[string]string
		prefix  string
		first   []string
	}{
		"nothing set": {},
		"path": {
			environ: map[string]string{"LD_LIBRARY_PATH": ":relative:/none:/opt/nccl/lib/"},
			first:   []string{"/opt/nccl/lib/libnccl.so.2"},
		},
		"a folder is no library": {environ: map[string]string{"LD_LIBRARY_PATH": "/opt/folder"}},
		"the wheel before a path": {
			environ: map[string]string{"LD_LIBRARY_PATH": "/opt/nccl/lib"}, prefix: "/v[env",
			first: []string{"/v[env/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "/opt/nccl/lib/libnccl.so.2"},
		},
		"preloaded before a wheel": {
			environ: map[string]string{"LD_PRELOAD": "libm.so.6:/opt/nccl/lib/libnccl.so.2"}, prefix: "/v[env",
			first: []string{"/opt/nccl/lib/libnccl.so.2", "/v[env/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"},
		},
		"preloaded by its name": {
			environ: map[string]string{"LD_PRELOAD": "libnccl.so.2", "LD_LIBRARY_PATH": "/opt/nccl/lib"},
			first:   []string{"/opt/nccl/lib/libnccl.so.2"},
		},
		"ROCm's PyTorch": {
			prefix: "/rocmvenv", first: []string{"/rocmvenv/lib/python3.12/site-packages/torch/lib/librccl.so"},
		},
		"Debian's Python": {
			prefix: "/debian", first: []string{"/debian/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := FindLibraries(root, func(name string) string { return row.environ[name] }, row.prefix)
			require.Equal(t, append(row.first, everywhere...), found)
		})
	}
}
