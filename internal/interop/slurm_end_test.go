package interop

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testslurm"
)

// playHeed prints "up", and then each signal after the rank's number, until it gets SIGTERM.
func playHeed() int {
	come := make(chan os.Signal, 16)
	signal.Notify(come, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	fmt.Printf("rank %s up on %s\n", os.Getenv("RANK"), os.Getenv("SLURMD_NODENAME"))
	for got := range come {
		fmt.Printf("rank %s: %v\n", os.Getenv("RANK"), got)
		if got == syscall.SIGTERM {
			return 0
		}
	}
	return 0
}

// heeding submits a batch job of gorun with such ranks, and waits until all are up.
func heeding(t *testing.T, c *testslurm.Cluster, options string, ranks int) (job int) {
	t.Helper()
	job = batch(t, c, options+" --export=ALL,"+roleVariable+"=heed", built("gorun"), self(t))
	untilOutput(t, c, job, " up on n", ranks)
	return job
}

// report requires that each rank has received a signal exactly once.
func report(t *testing.T, output string, ranks int, what syscall.Signal) {
	t.Helper()
	for rank := range ranks {
		require.Equal(t, 1, strings.Count(output, fmt.Sprintf("rank %d: %v\n", rank, what)), output)
	}
}

// slurmCancel: scancel ends a job on all nodes, and gorun does not blame a rank.
func slurmCancel(t *testing.T, c *testslurm.Cluster) {
	job := heeding(t, c, "-N3 -n5", 5)
	c.Cancel(t, job)
	output := requireState(t, c, job, "CANCELLED")
	require.NotContains(t, output, "failed first")

	in := inAllocation(t, c, "-N2 -n2 --kill-command=TERM", "sh", "-c", "echo job $SLURM_JOB_ID; exec sleep 60").start(t)
	require.True(t, in.until(t, &in.stdout, "job ", 2), in.stderr.String())
	_, err := fmt.Sscanf(in.stdout.String(), "job %d\n", &job)
	require.NoError(t, err)
	c.Cancel(t, job)
	require.NotZero(t, in.wait(t).code)
}

// slurmWarnings: a warning signal reaches every rank once, whether Slurm signals all steps or only the batch
// script.
func slurmWarnings(t *testing.T, c *testslurm.Cluster) {
	job := heeding(t, c, "-N2 -n4", 4)
	c.Cancel(t, job, "--signal=USR1")
	untilOutput(t, c, job, syscall.SIGUSR1.String(), 4)
	c.Cancel(t, job, "--batch", "--signal=USR2")
	untilOutput(t, c, job, syscall.SIGUSR2.String(), 4)
	c.Cancel(t, job)
	output := requireState(t, c, job, "CANCELLED")
	report(t, output, 4, syscall.SIGUSR1)
	report(t, output, 4, syscall.SIGUSR2)
}

// slurmTime: gorun reports the time limit as the cause, and --signal comes before it. Slurm checks times every 30
// seconds, so all jobs that wait for that run at once. Their end times are set after their ranks are up, because a
// warning may precede a job's script.
func slurmTime(t *testing.T, c *testslurm.Cluster) {
	steps := heeding(t, c, "-N2 -n2 --time=20 --signal=USR1@60", 2)
	script := heeding(t, c, "-N2 -n2 --time=20 --signal=B:USR1@60", 2)
	expires := heeding(t, c, "-N2 -n2", 2)
	c.EndAt(t, steps, "now+85seconds")
	c.EndAt(t, script, "now+85seconds")
	c.Expire(t, expires)
	untilOutput(t, c, expires, "killed by Slurm: time limit", 1)
	requireState(t, c, expires, "TIMEOUT")
	for _, job := range []int{steps, script} {
		untilOutput(t, c, job, syscall.SIGUSR1.String(), 2)
		c.Cancel(t, job)
		report(t, requireState(t, c, job, "CANCELLED"), 2, syscall.SIGUSR1)
	}
}

// TestSlurmNodeDies: the loss of a node ends the job with a report, unless it may go on without. The loss of its slurmd
// alone does not end it.
func TestSlurmNodeDies(t *testing.T) {
	t.Parallel()
	c := testslurm.Start(t, slurmConfig)
	release := filepath.Join(t.TempDir(), "release")
	t.Cleanup(func() { _ = os.WriteFile(release, nil, 0o644) })
	rank := fmt.Sprintf("echo up on $SLURMD_NODENAME; until [ -e %s ]; do sleep 0.1; done", quoted(release))
	goesOn := batch(t, c, "-N4 -n4 --no-requeue", "sh", "-c", `"$@"; echo "ended: $?"`, "sh", built("gorun"), "sh",
		"-c", rank)
	untilOutput(t, c, goesOn, "up on", 4)
	require.Equal(t, "n1", c.Field(t, goesOn, "BatchHost"))
	c.KillNode(t, "n3")
	require.NoError(t, os.WriteFile(release, nil, 0o644))
	untilOutput(t, c, goesOn, "ended: 0\n", 1)
	c.RestartNode(t, "n3")

	ends := heeding(t, c, "-N4 -n4 --no-requeue", 4)
	require.Equal(t, "n1", c.Field(t, ends, "BatchHost"))
	survives := batch(t, c, "-N4 -n4 --no-kill --no-requeue", built("gorun"), "--nnodes", "2:4", "sh", "-c",
		`n=$TORCHELASTIC_RESTART_COUNT; echo up $n: $WORLD_SIZE; [ $n = 2 ] || exec sleep 600`)
	untilOutput(t, c, survives, "up 0: 4", 4)
	c.CrashNode(t, "n3")
	untilOutput(t, c, survives, "up 1: 3", 3)
	untilOutput(t, c, ends, "\nexit ", 1)
	c.RestartNode(t, "n3")
	output := requireState(t, c, ends, "FAILED")
	require.Regexp(t, `gorun: .*n3`, output)
	c.DownNode(t, "n4")
	output = requireState(t, c, survives, "COMPLETED")
	require.Regexp(t, `gorun: n4 is lost: (Slurm reports .*|its connection ended), after \S+; 2 nodes left; `, output)
	require.Equal(t, 2, strings.Count(output, "up 2: 2\n"), output)
}

// slurmRequeue: ranks save at the notice of the end, Slurm runs the job again, and it goes on from there.
func slurmRequeue(t *testing.T, c *testslurm.Cluster) {
	saved := filepath.Join(t.TempDir(), "saved")
	job := batch(t, c, "-N2 -n2 --requeue --open-mode=append", built("gorun"), "--preempt-signal", "USR1", "--requeue-on",
		"85", "sh", "-c", `[ ! -e "$0" ] || exec echo resumed
trap 'touch "$0"; exit 85' USR1; echo up; while :; do sleep 0.1; done`, saved)
	untilOutput(t, c, job, "up\n", 2)
	c.Cancel(t, job, "--signal=USR1")
	untilOutput(t, c, job, fmt.Sprintf("Slurm job %d is in the queue again\n", job), 1)
	c.WaitState(t, job, "PENDING")
	// Within the same second, slurmd would refuse the job: "already killed".
	require.NoError(t, c.Command(t, "scontrol", "update", fmt.Sprint("JobId=", job), "StartTime=now+2seconds").Run())
	require.Equal(t, 2, strings.Count(requireState(t, c, job, "COMPLETED"), "resumed\n"))
}

// slurmChain: a job that a rank submits is a separate Slurm job. It gets its own allocation on the same node, and
// continues after that rank's job ends.
func slurmChain(t *testing.T, c *testslurm.Cluster) {
	dir := t.TempDir()
	next := "#!/bin/sh\nexport " + roleVariable + "=heed\nexec " + quoted(built("gorun")) + " " + quoted(self(t)) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "next.sh"), []byte(next), 0o755))
	hold, release, err := os.Pipe()
	require.NoError(t, err)
	defer hold.Close()
	defer release.Close()
	j := inAllocation(t, c, "-N1 -n1 -w n1", "sh", "-c",
		`sbatch --parsable -N1 -n2 -w n1 -o next.out next.sh && read line`)
	j.stdin, j.dir = hold, dir
	in := j.start(t)
	require.True(t, in.until(t, &in.stdout, "\n", 1), in.stderr.String())
	var job int
	_, err = fmt.Sscan(in.stdout.String(), &job)
	require.NoError(t, err)
	received := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			out, _ := os.ReadFile(filepath.Join(dir, "next.out"))
			return strings.Count(string(out), text) == 2
		}, patience, glance, text)
	}
	received(" up on n1\n")
	_, err = release.WriteString("go on\n")
	require.NoError(t, err)
	got := in.wait(t)
	require.Zero(t, got.code, got.stderr)
	c.Cancel(t, job, "--signal=USR1")
	received(syscall.SIGUSR1.String())
	c.Cancel(t, job)
	require.Equal(t, "CANCELLED", c.Wait(t, job))
}
