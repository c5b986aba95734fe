package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// For a hostile file, explain, lint and topo use limited memory. They run nothing and send no control
// characters to the terminal.
func TestHostileFiles(t *testing.T) {
	const escapes = "\x1b[2J\x1b]0;t\a\u009b2J"
	ran := filepath.Join(t.TempDir(), "ran")
	command := "$(touch " + ran + ")`touch " + ran + "`"
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nx0: &x0 [{name: NCCL_DEBUG, value: a}]\n")
	for i := range 20 {
		fmt.Fprintf(&bomb, "x%d: &x%d [%s*x%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d,", i), 9), i)
	}
	for name, content := range map[string]string{
		"escapes.log":    "Too many open files" + escapes + "\nNCCL WARN " + escapes + command + "\n",
		"escapes.conf":   "NCCL_ALGO=" + escapes + command + "\nNCCL_" + escapes + "=1\nNCCL_DEBU=" + escapes + "\n",
		"escapes.yaml":   "env:\n- name: NCCL_DEBU\n  value: \"\\e[2J" + command + "\"\n",
		"escapes.sh":     "export NCCL_ALGO=" + command + " NCCL_DEBU='" + escapes + "'\n",
		"bomb.yaml":      bomb.String() + "env: *x20\n",
		"circle.yaml":    "apiVersion: v1\nenv: &a\n- name: NCCL_DEBUG\n  value: x\n- *a\n<<: *a\n",
		"deep.yaml":      "env: " + strings.Repeat("[", testneeds.Count(1<<17, 1<<20)),
		"deep.json":      `{"env":` + strings.Repeat(`{"a":`, testneeds.Count(1<<17, 1<<20)),
		"deep.sh":        "export NCCL_DEBUG=" + strings.Repeat("$(", testneeds.Count(1<<16, 1<<20)) + "\n",
		"templates.yaml": "apiVersion: v1\nenv: " + strings.Repeat("{{a}}", testneeds.Count(1<<15, 3<<18)) + "\n",
		"quotes.log":     "NCCL WARN \"" + strings.Repeat(`\"`, testneeds.Count(1<<18, 1<<21)) + "\n",
		"line.log":       "NCCL WARN " + strings.Repeat("a", 64<<20),
		"zeros.conf":     strings.Repeat("\x00", 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
			for _, words := range [][]string{
				{"explain", file},
				{"env", "--lint", file, "--library", "none"},
				{"topo", "--from", filepath.Dir(file)},
				{"topo", "--rankfile", file},
			} {
				var before, after runtime.MemStats
				var stdout, stderr bytes.Buffer
				runtime.ReadMemStats(&before)
				gorun("gorun", words, &stdout, &stderr)
				runtime.ReadMemStats(&after)
				assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30), "%q", words)
				for _, r := range stdout.String() + stderr.String() {
					require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t', "%q: %q", words, stdout.String()+stderr.String())
				}
			}
			require.NoFileExists(t, ran)
		})
	}
}

// gorun refuses endless files, and pipes in a saved machine, which would block.
func TestFilesWithoutAnEnd(t *testing.T) {
	saved := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(saved, "proc/self"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(saved, "proc/self/status"), 0o600))
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"explain", "/dev/zero"}, "/dev/zero is a device"},
		{[]string{"env", "--lint", "/dev/zero"}, "more than 4 MiB"},
		{[]string{"topo", "--rankfile", "/dev/zero"}, "more than 64 MiB"},
		{[]string{"topo", "--from", saved}, "neither a file nor a folder"},
		{[]string{"topo", "--from", "/dev"}, "not a saved machine"},
	} {
		var stdout, stderr bytes.Buffer
		assert.NotZero(t, gorun("gorun", test.words, &stdout, &stderr), "%q", test.words)
		assert.Contains(t, stderr.String(), test.want, "%q", test.words)
	}
}
