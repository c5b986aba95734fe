package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testslurm"
)

// slurmTwoSteps: jobs of two steps in one allocation stay separate, although each node has a gorun of both.
func slurmTwoSteps(t *testing.T, c *testslurm.Cluster) {
	for _, step := range []string{
		"srun --overlap -N2 --ntasks-per-node=1 %[1]s --nproc-per-node 2 %[2]s",
		"srun --overlap -N2 -n4 %[1]s %[2]s",
	} {
		line := fmt.Sprintf(step, quoted(built("gorun")), quoted(built("hello")))
		got := underSlurm(t, c, "salloc -Q -N2 -n4 --ntasks-per-node=2", "sh", "-c",
			line+" & "+line+" & wait $! && wait").run(t)
		require.Zero(t, got.code, got.stderr)
		requireMet(t, got.stdout, 2)
	}
}

// slurmHeterogeneous: the parts of a heterogeneous Slurm job form one gorun job.
func slurmHeterogeneous(t *testing.T, c *testslurm.Cluster) {
	j := underSlurm(t, c, "salloc -Q -N1 -n2 : -N2 -n2", built("gorun"), built("hello"))
	got := j.run(t)
	require.Zero(t, got.code, got.stderr)
	requireMet(t, got.stdout, 1)
	require.Contains(t, got.stdout, "rank 3 of 4")
}

// slurmFewerTasks: in an allocation with more nodes than ranks, the other nodes stay unused.
func slurmFewerTasks(t *testing.T, c *testslurm.Cluster) {
	got := inAllocation(t, c, "-N4 --ntasks-per-node=2", append([]string{"-n", "5"}, slurmRank...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "a a b b c", inOrder(whereabouts(t, got)))
}

// slurmRestarts: after a failure, all ranks on all nodes start again under the same agents.
func slurmRestarts(t *testing.T, c *testslurm.Cluster) {
	script := "[ $RANK$TORCHELASTIC_RESTART_COUNT != 30 ] || exit 9; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep " +
		"60; " + slurmRank[2]
	got := inAllocation(t, c, "-N4 -n4", "--max-restarts", "1", "sh", "-c", script).run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "a b c d", inOrder(whereabouts(t, got)))
}

// slurmDownNode: Slurm marks a node as down, which ends the job.
func slurmDownNode(t *testing.T, c *testslurm.Cluster) {
	job := heeding(t, c, "-N4 -n4 --no-requeue", 4)
	require.Equal(t, "n1", c.Field(t, job, "BatchHost"))
	c.CrashNode(t, "n4")
	c.DownNode(t, "n4")
	untilOutput(t, c, job, "\nexit ", 1)
	c.RestartNode(t, "n4")
	output := requireState(t, c, job, "NODE_FAIL")
	require.Regexp(t, `killed by Slurm: node|gorun: .*n4`, output)
}

// TestSlurmInteractiveStep: the shell of salloc may be a step of its own on the first node, without a task.
func TestSlurmInteractiveStep(t *testing.T) {
	t.Parallel()
	config := slurmConfig
	config.Lines = []string{
		"LaunchParameters=use_interactive_step",
		`InteractiveStepOptions="--interactive --preserve-env /bin/sh"`,
	}
	c := testslurm.Start(t, config)
	j := underSlurm(t, c, "salloc -Q -N3 -n5")
	j.stdin = strings.NewReader(fmt.Sprintf("echo step $SLURM_STEP_ID\n%s sh -c '%s'\n", quoted(built("gorun")),
		slurmRank[2]))
	got := j.run(t)
	require.Zero(t, got.code, got.stderr)
	first, rest, _ := strings.Cut(got.stdout, "\n")
	require.Equal(t, "step 4294967290", first)
	require.Equal(t, "a a a b c", inOrder(whereabouts(t, result{stdout: rest, stderr: got.stderr})))
	slurmDownNode(t, c)
}
