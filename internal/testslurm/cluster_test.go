package testslurm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// holdVariable makes this test binary start a cluster, print its slurm.conf and wait to be killed.
const holdVariable = "TESTSLURM_HOLD"

var shared = Shared{Config: Config{GPUs: 2}}

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) != "" {
		os.Exit(hold())
	}
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// hold is what the test binary does that is killed.
func hold() int {
	c, err := Open(Config{Nodes: 1})
	if err == nil {
		_, err = c.run("sbatch", "-o", os.DevNull, "--wrap", "srun sleep 600")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// words runs a command of the cluster's and returns what it said.
func words(t *testing.T, c *Cluster, name string, args ...string) []string {
	t.Helper()
	var complaint strings.Builder
	cmd := c.Command(t, name, args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	return strings.Fields(string(out))
}

// await waits for what a job does.
func await(t *testing.T, c *Cluster, what string, done func() bool) {
	t.Helper()
	require.NoError(t, c.until(what, func() (bool, error) { return done(), nil }))
}

func TestStepOverAllNodes(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	require.Equal(t, []string{"n1", "n2", "n3", "n4"}, c.Nodes())
	require.ElementsMatch(t, c.Nodes(), words(t, c, "srun", "-N4", "-n4", "printenv", "SLURMD_NODENAME"))
}

func TestFakeGPUsAreAnnounced(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	require.Equal(t, []string{"0,1", "0,1"}, words(t, c, "srun", "-N2", "-n2", "--gpus-per-node=2", "printenv",
		"CUDA_VISIBLE_DEVICES"))
}

func TestBatchJob(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	job := c.Sbatch(t, "#!/bin/sh\necho $SLURM_TASKS_PER_NODE\nsrun printenv SLURM_NODEID | sort\nexit 3\n", "-N3", "-n5")
	require.Equal(t, "FAILED", c.Wait(t, job))
	require.Equal(t, "3:0", c.Field(t, job, "ExitCode"))
	require.Equal(t, "3,1(x2)\n0\n0\n0\n1\n2\n", c.Output(t, job))
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	job := c.Sbatch(t, "#!/bin/sh\ntrap 'echo warned' USR1\necho ready\nsleep 600 & wait\nwait\n")
	// it runs before it has its trap
	await(t, c, "the script's first word", func() bool { return c.Output(t, job) == "ready\n" })
	c.Cancel(t, job, "--batch", "--signal=USR1")
	await(t, c, "the script's own word", func() bool { return c.Output(t, job) == "ready\nwarned\n" })
	c.Cancel(t, job)
	require.Equal(t, "CANCELLED", c.Wait(t, job))
}

func TestNamesOfNodesResolve(t *testing.T) {
	t.Parallel()
	c := Start(t, Config{Nodes: 2, Names: true})
	require.Equal(t, []string{"127.0.0.1", "127.0.0.1"},
		words(t, c, "srun", "-N2", "sh", "-c", `getent ahostsv4 n2 | awk 'NR == 1 { print $1 }'`))
	require.Error(t, exec.Command("grep", "-qw", "n2", "/etc/hosts").Run(), "the machine's own file stays as it is")
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, strings.Fields(here), words(t, c, "pwd"))
}

// Slurm looks at time limits every 30 seconds.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	c := shared.Cluster(t)
	job := c.Sbatch(t, "#!/bin/sh\nexec srun sh -c 'echo up; exec sleep 600'\n")
	await(t, c, "a step, which srun would not make in a job whose time is over", func() bool {
		return strings.Contains(c.Output(t, job), "up")
	})
	c.Expire(t, job)
	require.Equal(t, "TIMEOUT", c.Wait(t, job))
	await(t, c, "why it was killed", func() bool { return strings.Contains(c.Output(t, job), "DUE TO TIME LIMIT") })
}

func TestNodesAreKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	c := Start(t, Config{Nodes: 2, Names: true})
	job := c.Sbatch(t, "#!/bin/sh\nexec srun sleep 600\n", "-N2", "--no-requeue")
	sleeping := func(node string) bool {
		all, err := c.Processes()
		require.NoError(t, err)
		for _, p := range all {
			if p.Node == node && len(p.Args) == 2 && filepath.Base(p.Args[0]) == "sleep" {
				require.False(t, p.Daemon())
				return true
			}
		}
		return false
	}
	await(t, c, "both ranks", func() bool { return sleeping("n1") && sleeping("n2") })
	c.KillNode(t, "n2")
	await(t, c, "the end of slurmd", func() bool { return c.ended("n2") })
	require.True(t, sleeping("n2"), "steps survive their slurmd")
	c.CrashNode(t, "n2")
	require.False(t, sleeping("n2"))
	require.True(t, sleeping("n1"), "the other node is left alone")
	c.DownNode(t, "n2")
	require.Equal(t, "NODE_FAIL", c.Wait(t, job))
	c.RestartNode(t, "n2")
	require.ElementsMatch(t, []string{"n1", "n2"}, words(t, c, "srun", "-N2", "printenv", "SLURMD_NODENAME"))
}

func TestTwoClustersSideBySide(t *testing.T) {
	t.Parallel()
	one, other := Start(t, Config{Nodes: 1}), Start(t, Config{Nodes: 2, CPUs: 3, Lines: []string{"KillWait=9"}})
	require.Equal(t, []string{"1"}, words(t, one, "sinfo", "-h", "-o", "%D"))
	require.Equal(t, []string{"2"}, words(t, other, "sinfo", "-h", "-o", "%D"))
	require.Equal(t, []string{"3"}, words(t, other, "srun", "--exclusive", "printenv", "SLURM_CPUS_ON_NODE"))
	require.Contains(t, strings.Join(words(t, other, "scontrol", "show", "config"), ""), "KillWait=9sec")
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	testneeds.Slurm(t)
	c, err := Open(Config{Nodes: 1})
	require.NoError(t, err)
	step := c.Command(t, "salloc", "-Q", "srun", "sh", "-c", "echo ready; trap '' TERM; sleep 600 & wait")
	out, err := step.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, step.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.NoError(t, c.Close())
	require.Error(t, step.Wait())
	left, err := c.Processes()
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoDirExists(t, c.Dir())
	require.NoError(t, c.Close(), "again")
}

func TestGuardEndsTheClusterOfAKilledProcess(t *testing.T) {
	t.Parallel()
	testneeds.Slurm(t)
	program, err := os.Executable()
	require.NoError(t, err)
	holder := exec.Command(program)
	holder.Env = append(os.Environ(), holdVariable+"=1")
	holder.Stderr = os.Stderr
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	dir, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	c := &Cluster{dir: strings.TrimSpace(dir)}
	await(t, c, "the rank of the job", func() bool {
		all, err := c.Processes()
		require.NoError(t, err)
		return strings.Contains(fmt.Sprint(all), "sleep 600")
	})
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	await(t, c, "the end of all processes, and of the folder", func() bool {
		left, err := c.Processes()
		require.NoError(t, err)
		_, gone := os.Stat(c.Dir())
		return len(left) == 0 && os.IsNotExist(gone)
	})
}

// A host's name may be unknown to everybody, and its own address another's.
func TestHostNameNeedNotResolve(t *testing.T) {
	t.Parallel()
	testneeds.Slurm(t)
	program, err := os.Executable()
	require.NoError(t, err)
	inner := exec.Command("unshare", "--uts", "sh", "-c",
		`echo nowhere-at-all >/proc/sys/kernel/hostname && exec "$0" -test.run='^TestBatchJob$' -test.v`, program)
	inner.Env = os.Environ()
	if out, err := exec.Command("unshare", "--uts", "true").CombinedOutput(); err != nil {
		testneeds.Skip(t, testneeds.LayerHosts, "no UTS namespace: "+string(out))
	}
	out, err := inner.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestBatchJob")
}

func TestConfigRefusesNothingToSlurm(t *testing.T) {
	require.Equal(t, []string{"A=1", "NodeName=n1"},
		replaced([]string{"A=1", "NodeName=n1", "KillWait=5"}, []string{"killwait=7", "NodeName=n9"}))
	ports, err := freePorts(5)
	require.NoError(t, err)
	require.Len(t, ports, 5)
	for _, port := range ports {
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, number, 32768)
	}
}
