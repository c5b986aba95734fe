package interop

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// collectiveOnce compiles a program that uses comm; unlike what TestMain builds it needs cgo.
var collectiveOnce = sync.OnceValues(func() (string, error) {
	build := exec.Command("go", "build", "-o", built("collective"), "gorun/comm/testdata/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build comm/testdata/hello: %w\n%s", err, said)
	}
	return built("collective"), nil
})

// collective returns that program: each rank adds up the ranks' numbers, in the world and in its half.
func collective(t *testing.T) string {
	t.Helper()
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	path, err := collectiveOnce()
	require.NoError(t, err)
	return path
}

// sums runs the program as a job that launch makes and compares what its ranks say.
func sums(t *testing.T, n int, launch job) {
	t.Helper()
	got := launch.run(t)
	require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)
	var want []string
	for rank := range n {
		half := 0
		for other := rank % 2; other < n; other += 2 {
			half += other
		}
		want = append(want, fmt.Sprintf("rank %d of %d: sum %d, of its half %d", rank, n, n*(n-1)/2, half))
	}
	said := strings.Split(strings.TrimSpace(got.stdout), "\n")
	slices.Sort(said)
	require.Equal(t, want, said)
}

// A Go program with collectives runs under every launcher whose ranks can tell their number, without an option.
func TestCollectivesUnderLaunchers(t *testing.T) {
	program := collective(t)
	for name, launch := range map[string]func(t *testing.T) job{
		"gorun":       func(*testing.T) job { return gorun("-n", "4", program) },
		"gorun rank0": func(*testing.T) job { return gorun("-n", "4", "--store=rank0", program) },
		"torchrun": func(t *testing.T) job {
			return underTorchrun(testneeds.Torch(t), "--standalone", "--no-python", "--nproc-per-node", "4", program)
		},
		"mpirun of Open MPI": func(t *testing.T) job {
			return job{argv: []string{testneeds.Program(t, "openmpi", "mpirun.openmpi"), "--allow-run-as-root", "--oversubscribe", "-n", "4", program}}
		},
		"mpiexec of MPICH": func(t *testing.T) job {
			return job{argv: []string{testneeds.Program(t, "hydra", "mpiexec.hydra"), "-n", "4", program}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sums(t, 4, launch(t))
		})
	}
	t.Run("alone", func(t *testing.T) { sums(t, 1, job{argv: []string{program}}) })
	t.Run("two jobs at once", func(t *testing.T) {
		mpirun := []string{testneeds.Program(t, "hydra", "mpiexec.hydra"), "-n", "3", program}
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				sums(t, 3, job{argv: mpirun})
			})
		}
	})
}
