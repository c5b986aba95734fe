package interop

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// TestPMIxPull: a rank uses PMIx_IOF_pull to receive the output of other ranks.
func TestPMIxPull(t *testing.T) {
	t.Parallel()
	pmixPull(t, gorun("-q", "-n", "3", pullProgram(t)), 3)
}

// pullProgram is a program that needs only Debian's PMIx.
func pullProgram(t *testing.T) string {
	t.Helper()
	testneeds.NeedMPICompiler(t, testneeds.LayerOpenMPI)
	flags, err := exec.Command(testneeds.Program(t, testneeds.LayerOpenMPI, "pkg-config"), "--cflags", "--libs",
		"pmix").Output()
	if err != nil {
		testneeds.Skip(t, testneeds.LayerOpenMPI, "pkg-config knows no pmix")
	}
	path := built("pmix-pull")
	argv := append([]string{"-O1", "-Wall", "-o", path, mpiSource("pull.c")}, strings.Fields(string(flags))...)
	said, err := exec.Command(testneeds.Program(t, testneeds.LayerGCC, "gcc"), argv...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return path
}

// pmixPull: rank 0 receives all streams of all other ranks, each in order, including output before its request.
func pmixPull(t *testing.T, j job, ranks int) {
	t.Helper()
	said := linesOf(j.succeed(t))
	for rank := 1; rank < ranks; rank++ {
		text := "from " + string(rune('0'+rank)) + ":"
		received := ""
		for _, line := range said {
			if strings.HasPrefix(line, text) {
				received = line
			}
		}
		assert.Contains(t, received, "out (2),")
		assert.Contains(t, received, "err (4),")
		if rank == 1 {
			assert.True(t, strings.HasPrefix(received, text+" early (2),"), received)
		}
	}
}
