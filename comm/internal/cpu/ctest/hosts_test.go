package ctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// layouts say on which host each rank is: a digit each.
var layouts = []string{"01", "0011", "0001", "0101", "012", "01201", "011222"}

func TestHostsSanitized(t *testing.T) {
	t.Parallel()
	calls(t, 100, "-O2", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
}

func TestHostsHaveNoRaces(t *testing.T) {
	t.Parallel()
	calls(t, 30, "-O2", "-g1", "-fsanitize=thread", "-Wno-tsan")
}

// calls runs random calls on every layout: short ones, and a few long ones. The kernels have sanitized tests of their own; to compile them so takes a
// minute, and here they are compiled plainly.
func calls(t *testing.T, count int, flags ...string) {
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	dir := t.TempDir()
	program := filepath.Join(dir, "engine_test")
	sources, err := filepath.Glob("../*.c")
	require.NoError(t, err)
	headers, err := filepath.Glob("../*.h")
	require.NoError(t, err)
	for _, file := range append(append(headers, sources...), "csrc/engine_test.c") {
		_, err := os.ReadFile(file) // go test then knows that its result depends on it
		require.NoError(t, err)
	}
	arguments := []string{"-o", program, "csrc/engine_test.c"}
	for _, source := range sources {
		if name := filepath.Base(source); strings.HasPrefix(name, "kernels") {
			source = filepath.Join(dir, name+".o")
			require.NoError(t, compile(gcc, append([]string{"-O1"}, warnings...), "-c", "-o", source, filepath.Join("..", name)))
		}
		arguments = append(arguments, source)
	}
	require.NoError(t, compile(gcc, append(flags, warnings...), append(arguments, "-lpthread", "-lm")...))
	random := testneeds.Rand(t)
	for _, layout := range layouts {
		for most, factor := range map[int]int{64 << 10: 1, 4 << 20: 10} {
			n := testneeds.Count(count, 20*count) / factor
			if len(layout) > 4 && factor > 1 {
				continue
			}
			said, err := exec.Command(program, fmt.Sprint(len(layout)), fmt.Sprint(n), fmt.Sprint(random.Uint64()), "4294967200",
				fmt.Sprint(most), layout).CombinedOutput()
			require.NoError(t, err, "hosts %s: %s", layout, said)
		}
	}
}
