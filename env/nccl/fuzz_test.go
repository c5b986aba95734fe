package nccl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// seed adds the files of testdata/lint.
func seed(f *testing.F) {
	files, err := filepath.Glob("testdata/lint/*")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	for _, text := range []string{
		"", "\\", "'", `"`, "A=$(", "A=${B:-", "cat <<EOF\nNCCL_DEBUG=INFO\n", "if a; then A=1; else A=2; fi", "ENV A",
		"RUN <<E\nA=1 b\nE",
		`os.environ["A"] = """b`, "os.environ.update({", "env = {'A': f'{x}', 'B': 'c' 'd'}", "#SBATCH --export=A=1",
		"-x\x00A=1 `b", "((((", "case a in b) A=1;; c) A=2;; esac",
		"env:\n- name: A\n  value: \"b\"\n- {name: B, value: c}\nrun: |\n  export A=1\nenvironment:\n  C: 'd' # e\n",
		`{"env": {"A": "b", /* x */ "B": ["C=d"]}, "args": ["-x", "A=1"]} // y`, "- - a: [b,\n c]", "a: >-\n\n",
		"\"a\": \"b\n c\"",
	} {
		f.Add(text)
	}
}

// FuzzParse: whatever a text is, its settings have names and stand on one of its lines,
// and the lint says one thing of each at least once, in their order.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, kind := range []SourceKind{
			FromEnvironment, FromScript, FromDockerfile, FromPython, FromConf, FromYAML,
			FromJSON,
		} {
			settings := Parse(kind, "file", []byte(text))
			for _, a := range settings {
				require.NotEmpty(t, a.Name)
				require.True(t, a.Line >= 1 && a.Line <= lines, "%s: line %d of %d", kind, a.Line, lines)
				require.Equal(t, kind, a.Kind)
				if kind != FromConf {
					require.True(t, isName(strings.TrimPrefix(a.Name, "OMPI_MCA_")) || strings.HasPrefix(a.Name, "OMPI_MCA_"))
				}
			}
			for _, found := range Lint(settings, Found{}) {
				require.NotEmpty(t, found.Text)
			}
		}
		require.NotPanics(t, func() { ParseFile("-", []byte(text)) })
	})
}

// FuzzParseConf: names come once, and what is read is in the text.
func FuzzParseConf(f *testing.F) {
	for _, text := range []string{
		"", "A=1\nA=2", "#A=1", " A = 1 ", "A=1\r\n", "=1", "A", "A\x00=1",
		"A=" + strings.Repeat("x", 5000), strings.Repeat("y", 4095) + "A=1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		seen := map[string]bool{}
		for _, s := range parseConf(text) {
			require.False(t, seen[s.Name])
			seen[s.Name] = true
			require.NotContains(t, s.Name, "=")
			require.NotContains(t, s.Value, "\n")
			require.LessOrEqual(t, max(len(s.Name), len(s.Value)), confText)
			require.True(t, bytes.Contains(text, []byte(s.Value)) && bytes.Contains(text, []byte(s.Name)))
		}
	})
}

// FuzzLibrary: any bytes are a library or none.
func FuzzLibrary(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add([]byte("NCCL_DEBUG\x00NCCL_SOCKET_IFNAME\x00NCCL version 2.30.7+cuda13.3\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		found, err := ReadLibrary(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			require.Empty(t, found.Names)
			return
		}
		for _, name := range found.Names {
			require.True(t, bytes.Contains(file, []byte(name)))
		}
	})
}

// FuzzCache: any bytes are a cache of the loader's or none.
func FuzzCache(f *testing.F) {
	f.Add(loaderCache(map[string]string{"libnccl.so.2": "/opt/a/libnccl.so.2"}))
	f.Add([]byte("glibc-ld.so.cache1.1"))
	f.Fuzz(func(t *testing.T, cache []byte) {
		for _, file := range inCache(cache) {
			require.True(t, bytes.Contains(cache, []byte(file)))
		}
		FindLibraries(fstest.MapFS{"etc/ld.so.cache": {Data: cache}}, func(string) string { return "" }, "")
	})
}
