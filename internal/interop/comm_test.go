package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// collectiveOnce compiles a program that uses comm. It needs cgo, unlike the programs that TestMain builds.
var collectiveOnce = sync.OnceValues(func() (string, error) {
	build := exec.Command("go", "build", "-o", built("collective"), "gorun/comm/testdata/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build comm/testdata/hello: %w\n%s", err, said)
	}
	return built("collective"), nil
})

// collective returns the path of that program. Its ranks sum their numbers over the world and over half of it.
func collective(t *testing.T) string {
	t.Helper()
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	path, err := collectiveOnce()
	require.NoError(t, err)
	return path
}

// sums runs the program as the job that launch makes and checks its output.
func sums(t *testing.T, n int, launch job) {
	t.Helper()
	got := launch.run(t)
	require.Zero(t, got.code, "%s%s", got.stdout, got.stderr)
	areSums(t, n, got.stdout)
}

// areSums checks the output of n ranks.
func areSums(t *testing.T, n int, stdout string) {
	t.Helper()
	var want []string
	for rank := range n {
		half := 0
		for other := rank % 2; other < n; other += 2 {
			half += other
		}
		want = append(want, fmt.Sprintf("rank %d of %d: sum %d, of its half %d", rank, n, n*(n-1)/2, half))
	}
	said := strings.Split(strings.TrimSpace(stdout), "\n")
	slices.Sort(said)
	require.Equal(t, want, said)
}

// A Go program with collectives needs no options under any launcher that gives its ranks their numbers.
func TestCollectivesUnderLaunchers(t *testing.T) {
	program := collective(t)
	for name, launch := range map[string]func(t *testing.T) job{
		"gorun":       func(*testing.T) job { return gorun("-n", "4", program) },
		"gorun rank0": func(*testing.T) job { return gorun("-n", "4", "--store=rank0", program) },
		"torchrun": func(t *testing.T) job {
			return underTorchrun(testneeds.Torch(t), "--standalone", "--no-python", "--nproc-per-node", "4", program)
		},
		"mpirun of Open MPI": func(t *testing.T) job {
			return job{argv: []string{
				testneeds.Program(t, "openmpi", "mpirun.openmpi"), "--allow-run-as-root",
				"--oversubscribe", "-n", "4", program,
			}}
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

// Launchers that are not installed here are represented by the variables that they set.
func TestCollectivesByVariables(t *testing.T) {
	program := collective(t)
	local := func(t *testing.T) []string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close() // rank 0 listens there
		_, port, err := net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		return []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}
	}
	nothing := func(*testing.T) []string { return nil }
	for name, row := range map[string]struct {
		common func(t *testing.T) []string
		own    string // %[1]d is the rank, %[2]d the world size
	}{
		"srun": {nothing, "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=%[1]d SLURM_NTASKS=%[2]d SLURM_STEP_NUM_TASKS=%[2]d " +
			"SLURM_LOCALID=%[1]d " +
			"SLURM_GTIDS=0,1,2 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1"},
		"srun with an address": {
			local, "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=%[1]d SLURM_STEP_NUM_TASKS=%[2]d SLURM_LOCALID=%[1]d",
		},
		"srun --mpi=pmi2": {
			nothing,
			"SLURM_STEP_ID=2 SLURM_PROCID=%[1]d SLURM_STEP_NUM_TASKS=%[2]d SLURM_LOCALID=%[1]d SLURM_GTIDS=0,1,2 " +
				"PMI_RANK=%[1]d PMI_SIZE=%[2]d",
		},
		"bare PMI":  {nothing, "PMI_RANK=%[1]d PMI_SIZE=%[2]d"},
		"Intel MPI": {nothing, "PMI_RANK=%[1]d PMI_SIZE=%[2]d MPI_LOCALRANKID=%[1]d MPI_LOCALNRANKS=%[2]d"},
		"Open MPI": {nothing, "OMPI_COMM_WORLD_RANK=%[1]d OMPI_COMM_WORLD_SIZE=%[2]d OMPI_COMM_WORLD_LOCAL_RANK=%[1]d " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=%[2]d"},
		"torch.distributed's env://": {local, "RANK=%[1]d WORLD_SIZE=%[2]d LOCAL_RANK=%[1]d"},
	} {
		t.Run(name, func(t *testing.T) { // sequential: ranks use their common parent process
			const n = 3
			common, said := row.common(t), make([]bytes.Buffer, n)
			ranks := make([]*exec.Cmd, n)
			for rank := range ranks {
				cmd := exec.Command(program)
				cmd.Env = append(append(os.Environ(), common...), strings.Fields(fmt.Sprintf(row.own, rank, n))...)
				cmd.Stdout, cmd.Stderr = &said[rank], &said[rank]
				require.NoError(t, cmd.Start())
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				ranks[rank] = cmd
			}
			var all string
			for rank, cmd := range ranks {
				assert.NoError(t, cmd.Wait(), "rank %d: %s", rank, said[rank].String())
				all += said[rank].String()
			}
			areSums(t, n, all)
		})
	}
}
