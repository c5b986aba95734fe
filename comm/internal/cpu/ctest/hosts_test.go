package ctest

import (
	"fmt"
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
	isKernel := func(file string) bool { return strings.HasPrefix(filepath.Base(file), "kernels") }
	engine := append(slices.DeleteFunc(engineSources(t), isKernel), "csrc/engine_test.c")
	kernels := slices.DeleteFunc(engineSources(t), func(file string) bool { return !isKernel(file) })
	plain := objectsOf(t, gcc, kernels, optimised...)
	for name, flags := range map[string][]string{
		"accesses": {"-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
		"races":    raceless,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := link(t, gcc, slices.Concat(objectsOf(t, gcc, engine, flags...), plain), flags...)
			for _, layout := range layouts {
				callsOver(t, program, layout, 64<<10, testneeds.Count(50, 2000))
				if len(layout) <= 4 { // long messages, which go through windows
					callsOver(t, program, layout, 8<<20, testneeds.Count(6, 200))
				}
			}
		})
	}
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
