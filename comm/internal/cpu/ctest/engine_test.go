package ctest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// raceless finds races between ranks. ThreadSanitizer does not know fences by themselves; the engine's only order what
// is atomic anyway.
var raceless = []string{"-O1", "-g1", "-fsanitize=thread", "-Wno-tsan"}

// nearWrap is a sequence number a few calls before 2^32, of which lines carry the lower half.
const nearWrap = 1<<32 - 96

func TestEngineUnderThreadSanitizer(t *testing.T) {
	t.Parallel()
	engine(t, testneeds.Count(100, 3000), raceless...)
}

func TestEngineSanitized(t *testing.T) {
	t.Parallel()
	engine(t, testneeds.Count(200, 5000), sanitized...)
}

func TestEngineAsCgoCompilesIt(t *testing.T) {
	t.Parallel()
	engine(t, testneeds.Count(400, 20_000), optimised...)
}

// engine runs random calls among ranks that are threads of one process: few and many, from the first call on and over
// the wrap of their numbers.
func engine(t *testing.T, calls int, flags ...string) {
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	program := buildOf(t, gcc, engineSources(t), "engine_test.c", flags...)
	r := testneeds.Rand(t)
	for _, ranks := range []int{1, 2, 3, 4, 7, 16} {
		for _, first := range []uint64{0, nearWrap} {
			const largest = 1 << 18 // bytes of the largest buffers
			argv := []string{
				fmt.Sprint(ranks), fmt.Sprint(calls * 4 / (ranks + 3)), fmt.Sprint(r.Uint64()),
				fmt.Sprint(first), fmt.Sprint(largest),
			}
			said, err := exec.Command(program, argv...).CombinedOutput()
			require.NoError(t, err, "engine_test %s\n%s", strings.Join(argv, " "), said)
			t.Logf("%s", said)
		}
	}
}

// engineSources are the C files of the back end.
func engineSources(t *testing.T) []string {
	all, err := filepath.Glob("../*.c")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// A rank stops spinning where others that wait get its CPU, and looks again later.
func TestSharedCPUs(t *testing.T) {
	t.Parallel()
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	said, err := exec.Command(buildOf(t, gcc, engineSources(t), "sharing_test.c", sanitized...)).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Equal(t, "alone or beside others that compute: spins\nbeside others that wait: 8, 4096, 2\n", string(said))
}
