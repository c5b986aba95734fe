package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testslurm"
)

// inStep is one gorun in each task of an srun step.
func inStep(t *testing.T, c *testslurm.Cluster, options string, args ...string) job {
	t.Helper()
	return underSlurm(t, c, "srun "+options, append([]string{built("gorun")}, args...)...)
}

// slurmGorunPerNode: gorun in each task of a step is a node of one job, and gets its number from Slurm.
func slurmGorunPerNode(t *testing.T, c *testslurm.Cluster) {
	ranks := tellInSlurm(t, inStep(t, c, "-N3 --ntasks-per-node=1 -c2", "--nproc-per-node", "2"))
	requireNumbers(t, ranks, []int{2, 2, 2})
	got := inStep(t, c, "-N2 --ntasks-per-node=1", "--nproc-per-node", "4", built("hello")).run(t)
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stderr, "token", "MUNGE authenticates the nodes, and no notice is needed")
	requireMet(t, got.stdout, 1)
	ranks = tellInSlurm(t, inStep(t, c, "-N1 -n1", "--nproc-per-node", "2"))
	requireNumbers(t, ranks, []int{2})
}

// requireNumbers requires the right numbers of ranks, in rank order, on nodes with each[i] ranks.
func requireNumbers(t *testing.T, ranks []seen, each []int) {
	t.Helper()
	size := 0
	for _, n := range each {
		size += n
	}
	require.Len(t, ranks, size)
	rank := 0
	for node, n := range each {
		for local := range n {
			for name, want := range map[string]int{
				"RANK": rank, "SLURM_PROCID": rank, "WORLD_SIZE": size, "SLURM_NTASKS": size, "LOCAL_RANK": local,
				"SLURM_LOCALID":    local,
				"LOCAL_WORLD_SIZE": n, "GROUP_RANK": node, "SLURM_NODEID": node, "SLURM_NNODES": len(each), "SLURM_NPROCS": size,
			} {
				require.Equal(t, strconv.Itoa(want), ranks[rank].Environ[name], "%s of rank %d", name, rank)
			}
			rank++
		}
	}
	for _, one := range ranks {
		require.Equal(t, ranks[0].Environ["MASTER_PORT"], one.Environ["MASTER_PORT"])
		require.Equal(t, "slurm:"+one.Environ["SLURM_JOB_ID"], one.Environ["GORUN_JOB_ENGINE"],
			"without it nothing marks the rank's children")
	}
}

// slurmGorunPerNodeFails: a rank that fails on one node ends the step on all nodes.
func slurmGorunPerNodeFails(t *testing.T, c *testslurm.Cluster) {
	got := inStep(t, c, "-N2 --ntasks-per-node=1", "--nproc-per-node", "2", "sh", "-c",
		"[ $RANK != 3 ] || exit 7; exec sleep 60").run(t)
	require.Equal(t, 7, got.code, got.stderr)
	require.Contains(t, got.stderr, "rank 3 failed first")
}

// slurmHabits: the usual lines of torchrun users in batch scripts work unchanged.
func slurmHabits(t *testing.T, c *testslurm.Cluster) {
	script := fmt.Sprintf(`head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
exec srun -N2 --ntasks-per-node=1 %s --nnodes $SLURM_NNODES --nproc-per-node 2 --rdzv-id $SLURM_JOB_ID `+
		`--rdzv-backend c10d --rdzv-endpoint $head:%s --no-python %s`,
		quoted(built("torchrun")), freePort(t), quoted(built("hello")))
	output := requireState(t, c, batch(t, c, "-N2 -n2 --ntasks-per-node=1", "sh", "-c", script), "COMPLETED")
	requireMet(t, output, 1)
}

// slurmGorunPerRank: gorun in each of many tasks is one rank, with the numbers from Slurm.
func slurmGorunPerRank(t *testing.T, c *testslurm.Cluster) {
	ranks := tellInSlurm(t, inStep(t, c, "-N3 -n5"))
	requireNumbers(t, ranks, fiveOnThree(t, ranks))
	got := inStep(t, c, "-N2 -n8 --ntasks-per-node=4", built("hello")).run(t)
	require.Zero(t, got.code, got.stderr)
	requireMet(t, got.stdout, 1)
}

// slurmOwnOutput: each gorun shows the output of its own rank only.
func slurmOwnOutput(t *testing.T, c *testslurm.Cluster) {
	got := inStep(t, c, "-N2 -n4 --ntasks-per-node=2 --label", "sh", "-c", "echo out $RANK; echo err $RANK >&2").run(t)
	require.Zero(t, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	slices.Sort(lines)
	require.Equal(t, []string{"0: out 0", "1: out 1", "2: out 2", "3: out 3"}, lines)
	for rank := range 4 {
		require.Contains(t, got.stderr, fmt.Sprintf("%d: err %d\n", rank, rank))
	}
}

// slurmGorunPerRankFails: the first failure becomes the status of the step.
func slurmGorunPerRankFails(t *testing.T, c *testslurm.Cluster) {
	got := inStep(t, c, "-N2 -n4 --ntasks-per-node=2", "sh", "-c", "[ $RANK != 2 ] || exit 7; exec sleep 60").run(t)
	require.Equal(t, 7, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "rank 2 failed first"), got.stderr)
}

// slurmStepWarning: a signal from Slurm to every process of a step reaches each rank once, in both forms.
func slurmStepWarning(t *testing.T, c *testslurm.Cluster) {
	for form, options := range map[string][]string{
		"-N2 -n4 --ntasks-per-node=2": {self(t)}, "-N2 --ntasks-per-node=1": {"--nproc-per-node", "2", self(t)},
	} {
		words := strings.Fields(form)
		argv := append(append(append([]string{"srun"}, words...), built("gorun")), options...)
		job := batch(t, c, form+" --export=ALL,"+roleVariable+"=heed", argv...)
		untilOutput(t, c, job, " up on n", 4)
		c.Cancel(t, job, "--signal=USR1")
		untilOutput(t, c, job, syscall.SIGUSR1.String(), 4)
		c.Cancel(t, job, "--signal=USR2")
		untilOutput(t, c, job, syscall.SIGUSR2.String(), 4)
		c.Cancel(t, job)
		output := requireState(t, c, job, "CANCELLED")
		report(t, output, 4, syscall.SIGUSR1)
		report(t, output, 4, syscall.SIGUSR2)
	}
}
