package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/internal/testslurm"
)

// slurm is a real Slurm with four nodes n1 to n4, all on this host. Tests that kill nodes start their own.
var slurm = testslurm.Shared{Config: slurmConfig}

// slurmConfig has enough CPUs per node that jobs neither wait for each other nor change each other's placement.
var slurmConfig = testslurm.Config{Names: true, GPUs: 2, CPUs: 64}

// glance is the interval between two reads of a job's output.
const glance = 20 * time.Millisecond

// slurmRank is a rank that prints its number and its node.
var slurmRank = []string{"sh", "-c", `echo "$RANK $SLURMD_NODENAME"`}

// underSlurm is a command under salloc or srun.
func underSlurm(t *testing.T, c *testslurm.Cluster, words string, args ...string) job {
	t.Helper()
	cmd := c.Command(t, strings.Fields(words)[0], append(strings.Fields(words)[1:], args...)...)
	return job{argv: cmd.Args}.with("SLURM_CONF=" + c.ConfigFile())
}

// inAllocation is gorun in an allocation of salloc.
func inAllocation(t *testing.T, c *testslurm.Cluster, options string, args ...string) job {
	t.Helper()
	return underSlurm(t, c, "salloc -Q "+options, append([]string{built("gorun")}, args...)...)
}

// batch submits a script that executes the program. No process of the job may remain when the test ends.
func batch(t *testing.T, c *testslurm.Cluster, options string, argv ...string) int {
	t.Helper()
	name, value, _ := strings.Cut(markOf(t), "=")
	script := "#!/bin/sh\nexport " + name + "=" + quoted(value) + "\nexec"
	for _, word := range argv {
		script += " " + quoted(word)
	}
	return c.Sbatch(t, script+"\n", strings.Fields(options)...)
}

// quoted quotes a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// requireState waits for the end of a job, and shows its output if the state differs.
func requireState(t *testing.T, c *testslurm.Cluster, job int, want string) string {
	t.Helper()
	got := c.Wait(t, job)
	output := c.Output(t, job)
	require.Equal(t, want, got, output)
	return output
}

// untilOutput waits until text occurs a number of times in a job's output.
func untilOutput(t *testing.T, c *testslurm.Cluster, job int, text string, times int) {
	t.Helper()
	if !assert.Eventually(t, func() bool { return strings.Count(c.Output(t, job), text) >= times }, patience, glance) {
		require.FailNow(t, "no output", "for %d of %q: %s", times, text, c.Output(t, job))
	}
}

// tellInSlurm runs ranks of role "tell" and returns their reports, sorted by rank. Each rank writes to its own
// file, because srun mixes the lines of its tasks.
func tellInSlurm(t *testing.T, j job) []seen {
	t.Helper()
	dir := t.TempDir()
	j.argv = append(j.argv, "sh", "-c", `exec "$1" >"$2/$RANK"`, "sh", self(t), dir)
	got := j.with(roleVariable + "=tell").run(t)
	require.Zero(t, got.code, got.stderr)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	var text strings.Builder
	for _, file := range files {
		one, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		text.Write(one)
	}
	return parseSeen(t, text.String())
}

// TestSlurm runs jobs in one Slurm, several at a time.
func TestSlurm(t *testing.T) {
	c := slurm.Cluster(t)
	for name, test := range map[string]func(t *testing.T, c *testslurm.Cluster){
		"salloc":                       slurmSalloc,
		"numbers of ranks":             slurmNumbers,
		"batch job":                    slurmBatch,
		"batch job that fails":         slurmBatchFails,
		"job array":                    slurmArray,
		"environment":                  slurmEnvironment,
		"GPUs":                         slurmGPUs,
		"two jobs":                     slurmTwoJobs,
		"PyTorch":                      slurmPyTorch,
		"scancel":                      slurmCancel,
		"warnings by hand":             slurmWarnings,
		"time":                         slurmTime,
		"requeue":                      slurmRequeue,
		"one gorun per node":           slurmGorunPerNode,
		"one gorun per node that fail": slurmGorunPerNodeFails,
		"habits of torchrun's users":   slurmHabits,
		"one gorun per rank":           slurmGorunPerRank,
		"output of each rank":          slurmOwnOutput,
		"one rank of several fails":    slurmGorunPerRankFails,
		"a step's warning":             slurmStepWarning,
		"two steps":                    slurmTwoSteps,
		"heterogeneous":                slurmHeterogeneous,
		"fewer ranks":                  slurmFewerTasks,
		"restarts":                     slurmRestarts,
		"a job inside a rank":          slurmInsideRank,
		"a batch job of a rank's":      slurmChain,
		"without the engine":           slurmNone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// Every slot of every node has a rank. With a smaller -n there are fewer ranks, and -H chooses the nodes.
func slurmSalloc(t *testing.T, c *testslurm.Cluster) {
	for _, row := range []struct{ allocation, options, want string }{
		{"-N1 -n2", "", "a a"},
		{"-N4 -n4", "", "a b c d"},
		{"-N3 -n5", "", "(a ?){1,3}(b ?){1,3}(c ?){1,3}"}, // Slurm allocates more of a node that is less busy
		{"-N2 -n8 --ntasks-per-node=4", "-n 3", "a a a"},
		{"-N2 -n8 --ntasks-per-node=4", "--nproc-per-node 1", "a b"},
	} {
		got := inAllocation(t, c, row.allocation, append(strings.Fields(row.options), slurmRank...)...).run(t)
		require.Zero(t, got.code, "%v: %s", row, got.stderr)
		where := inOrder(whereabouts(t, got))
		require.Regexp(t, "^("+row.want+")$", where, "%v", row)
		if row.allocation == "-N3 -n5" {
			require.Len(t, strings.Fields(where), 5)
		}
	}
	got := inAllocation(t, c, "-N4 -n4", append([]string{"-H", "n3,n2"}, slurmRank...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "n3 n2", whereabouts(t, got))
}

// inOrder renames nodes by their position, because Slurm chooses the least busy ones. "n3 n3 n4" becomes "a a b".
func inOrder(nodes string) string {
	names, letters := strings.Fields(nodes), map[string]string{}
	for i, name := range names {
		if letters[name] == "" {
			letters[name] = string(rune('a' + len(letters)))
		}
		names[i] = letters[name]
	}
	return strings.Join(names, " ")
}

// slurmNumbers: an uneven task layout gives uneven nodes, and ranks have the SLURM_* values that srun would set.
func slurmNumbers(t *testing.T, c *testslurm.Cluster) {
	ranks := tellInSlurm(t, inAllocation(t, c, "-N3 -n5"))
	requireNumbers(t, ranks, fiveOnThree(t, ranks))
}

// fiveOnThree are the numbers of five ranks on three nodes. They must match the CPUs that Slurm allocated: more on
// a node that is less busy.
func fiveOnThree(t *testing.T, ranks []seen) []int {
	t.Helper()
	each := make([]int, 3)
	for _, one := range ranks {
		node, err := strconv.Atoi(one.Environ["SLURM_NODEID"])
		require.NoError(t, err)
		require.Less(t, node, len(each))
		each[node]++
	}
	require.NotContains(t, each, 0)
	require.Equal(t, cpusPerNode(t, ranks[0].Environ["SLURM_JOB_CPUS_PER_NODE"]), each)
	return each
}

// cpusPerNode are the numbers in a list of Slurm, such as "3,1(x2)".
func cpusPerNode(t *testing.T, list string) (each []int) {
	t.Helper()
	for item := range strings.SplitSeq(list, ",") {
		number, times, several := strings.Cut(strings.TrimSuffix(item, ")"), "(x")
		n, err := strconv.Atoi(number)
		require.NoError(t, err, list)
		nodes := 1
		if several {
			nodes, err = strconv.Atoi(times)
			require.NoError(t, err, list)
		}
		each = append(each, slices.Repeat([]int{n}, nodes)...)
	}
	return each
}

// slurmBatch: the ranks of a batch job on four nodes connect, and their output is that of the batch job.
func slurmBatch(t *testing.T, c *testslurm.Cluster) {
	output := requireState(t, c, batch(t, c, "-N4 -n16 --ntasks-per-node=4", built("gorun"), built("hello")), "COMPLETED")
	requireMet(t, output, 1)
	require.Contains(t, output, "rank 15 of 16")
}

// slurmBatchFails: the exit code of a rank becomes the status of the batch job.
func slurmBatchFails(t *testing.T, c *testslurm.Cluster) {
	job := batch(t, c, "-N3 -n5", built("gorun"), "sh", "-c", "[ $RANK != 4 ] || exit 7; exec sleep 60")
	output := requireState(t, c, job, "FAILED")
	require.Equal(t, "7:0", c.Field(t, job, "ExitCode"))
	require.Regexp(t, `gorun: rank 4 failed first: .* \(n\d, pid \d+, `, output)
}

// slurmArray: each job of an array is a separate job.
func slurmArray(t *testing.T, c *testslurm.Cluster) {
	dir := t.TempDir()
	script := "echo task $SLURM_ARRAY_TASK_ID rank $RANK of $WORLD_SIZE"
	batch(t, c, "-N2 -n4 --array=1-2 --output="+dir+"/%a", built("gorun"), "sh", "-c", script)
	for task := 1; task <= 2; task++ {
		said := func() string {
			text, _ := os.ReadFile(filepath.Join(dir, strconv.Itoa(task))) // the file appears when the job starts
			return string(text)
		}
		require.Eventually(t, func() bool { return strings.Count(said(), " of 4\n") == 4 }, patience, glance)
		for rank := range 4 {
			require.Contains(t, said(), fmt.Sprintf("task %d rank %d of 4\n", task, rank))
		}
	}
}

// slurmEnvironment: ranks on all nodes have the launcher's environment and the values of their own node.
func slurmEnvironment(t *testing.T, c *testslurm.Cluster) {
	ranks := tellInSlurm(t, inAllocation(t, c, "-N2 -n2").with("MY_MODULES=a:b"))
	require.Len(t, ranks, 2)
	nodes := map[string]bool{}
	for _, rank := range ranks {
		require.Equal(t, "a:b", rank.Environ["MY_MODULES"])
		require.Equal(t, ranks[0].Environ["SLURM_JOB_ID"], rank.Environ["SLURM_JOB_ID"])
		require.NotEmpty(t, rank.Environ["SLURM_JOB_ID"])
		require.Equal(t, c.ConfigFile(), rank.Environ["SLURM_CONF"])
		for name := range rank.Environ { // ranks must not see variables of the agents' step
			require.NotRegexp(t, `^SLURM_(SRUN_COMM|STEP_LAUNCHER|CPU_BIND)`, name)
		}
		nodes[rank.Environ["SLURMD_NODENAME"]] = true
	}
	require.Len(t, nodes, 2)
}

// slurmGPUs: each rank has its own GPU of the node's two, with every way to request them.
func slurmGPUs(t *testing.T, c *testslurm.Cluster) {
	for _, options := range []string{
		"-N2 -n4 --ntasks-per-node=2 --gpus-per-node=2",
		"-N2 -n4 --ntasks-per-node=2 --gres=gpu:2",
	} {
		got := inAllocation(t, c, options, "sh", "-c", "echo $RANK $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE").run(t)
		require.Zero(t, got.code, got.stderr)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		slices.Sort(lines)
		require.Len(t, lines, 4, options)
		for rank, line := range lines {
			require.Regexp(t, fmt.Sprintf(`^%d 0,1 2$`, rank), line, options)
		}
	}
}

// slurmTwoJobs: two jobs on the same nodes at the same time do not share anything.
func slurmTwoJobs(t *testing.T, c *testslurm.Cluster) {
	jobs := []*running{
		inAllocation(t, c, "-N4 -n8 --ntasks-per-node=2", built("hello")).start(t),
		inAllocation(t, c, "-N4 -n8 --ntasks-per-node=2", built("hello")).start(t),
	}
	for _, r := range jobs {
		got := r.wait(t)
		require.Zero(t, got.code, got.stderr)
		requireMet(t, got.stdout, 1)
	}
}

// slurmPyTorch: DistributedDataParallel over two nodes gives the same result as elsewhere.
func slurmPyTorch(t *testing.T, c *testslurm.Cluster) {
	python := testneeds.Torch(t)
	losses := filepath.Join(t.TempDir(), "losses")
	j := inAllocation(t, c, "-N2 -n2", example(t, "torch/digits_ddp.py"), "--losses", losses)
	got := readTraining(t, j.with("GORUN_PYTHON="+python), losses)
	require.Greater(t, got.accuracy, 90.0)
}

// slurmInsideRank: a gorun in a rank starts its ranks on its own node, as anywhere.
func slurmInsideRank(t *testing.T, c *testslurm.Cluster) {
	got := inAllocation(t, c, "-N2 -n2", append([]string{built("gorun"), "-n", "2"}, slurmRank...)...).run(t)
	require.Zero(t, got.code, got.stderr)
	var lines []string
	for line := range strings.Lines(got.stdout) {
		lines = append(lines, regexp.MustCompile(`n\d`).ReplaceAllString(strings.TrimSpace(line), "n"))
	}
	require.ElementsMatch(t, []string{"0 n", "0 n", "1 n", "1 n"}, lines)
}

// slurmNone: --engine none uses this host only.
func slurmNone(t *testing.T, c *testslurm.Cluster) {
	got := inAllocation(t, c, "-N2 -n2", "--engine", "none", "-n", "2", "sh", "-c", "echo $RANK/$WORLD_SIZE").run(t)
	require.Zero(t, got.code, got.stderr)
	require.ElementsMatch(t, []string{"0/2", "1/2"}, strings.Fields(got.stdout))
}
