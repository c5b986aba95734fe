package ctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// layouts say on which host each rank is: a digit each.
var layouts = []string{"01", "0011", "0001", "0101", "012", "01201", "011222"}

// TestHosts makes random calls on every layout, with what finds wrong accesses and with what finds races. The kernels
// have sanitized tests of their own; to compile them so takes a minute, and here they are compiled plainly.
func TestHosts(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	sources, err := filepath.Glob("../*.c")
	require.NoError(t, err)
	headers, err := filepath.Glob("../*.h")
	require.NoError(t, err)
	for _, file := range append(append(headers, sources...), "csrc/engine_test.c") {
		_, err := os.ReadFile(file) // go test then knows that its result depends on it
		require.NoError(t, err)
	}
	isKernel := func(file string) bool { return strings.HasPrefix(filepath.Base(file), "kernels") }
	engine := append(slices.DeleteFunc(slices.Clone(sources), isKernel), "csrc/engine_test.c")
	kernels := slices.DeleteFunc(sources, func(file string) bool { return !isKernel(file) })
	plain := hostObjects(t, gcc, kernels, "-O1")
	for name, sanitizer := range map[string][]string{
		"accesses": {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
		"races":    {"-fsanitize=thread", "-Wno-tsan"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := append([]string{"-O1", "-g1"}, sanitizer...)
			program := filepath.Join(t.TempDir(), "engine_test")
			all := append(hostObjects(t, gcc, engine, flags...), plain...)
			require.NoError(t, compile(gcc, flags, append(all, "-o", program, "-lpthread", "-lm")...))
			for _, layout := range layouts {
				callsOver(t, program, layout, 64<<10, testneeds.Count(50, 2000))
				if len(layout) <= 4 { // long messages, which go through windows
					callsOver(t, program, layout, 8<<20, testneeds.Count(6, 200))
				}
			}
		})
	}
}

// hostObjects compiles files, all at once.
func hostObjects(t *testing.T, gcc string, files []string, flags ...string) []string {
	t.Helper()
	dir := t.TempDir()
	made, results := make([]string, len(files)), make(chan error, len(files))
	for i, file := range files {
		made[i] = filepath.Join(dir, filepath.Base(file)+".o")
		go func() { results <- compile(gcc, append(slices.Clone(flags), warnings...), "-c", "-o", made[i], file) }()
	}
	for range files {
		require.NoError(t, <-results)
	}
	return made
}

// callsOver makes random calls of up to most bytes, near the wrap of the sequence numbers.
func callsOver(t *testing.T, program, layout string, most, count int) {
	t.Helper()
	seed := testneeds.Rand(t).Uint64()
	said, err := exec.Command(program, fmt.Sprint(len(layout)), fmt.Sprint(count), fmt.Sprint(seed), "4294967280",
		fmt.Sprint(most),
		layout).CombinedOutput()
	require.NoError(t, err, "hosts %s: %s", layout, said)
}
