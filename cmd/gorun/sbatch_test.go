package main

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// The command line, Slurm's options in the script, and the line that starts gorun.
func TestSbatch(t *testing.T) {
	for typed, want := range map[string][2]string{
		"gorun sbatch x":          {"", "x"},
		"gorun sbatch -n 8 x a b": {"--ntasks=8", "-n 8 x a b"},
		"gorun sbatch -np 8 x":    {"--ntasks=8", "-n 8 x"},
		"gorun sbatch -N2 --nproc-per-node 4 x": {
			"--nodes=2 --ntasks-per-node=4", "--nproc-per-node 4 x",
		},
		"gorun sbatch --nnodes 2:2 --nproc_per_node=4 x": {
			"--nodes=2 --ntasks-per-node=4", "--nproc-per-node 4 x",
		},
		"gorun sbatch --nodes 2-4 x": {"--nodes=2-4", "x"},
		"gorun sbatch -n 8 --nproc-per-node 4 x": {
			"--nodes=2 --ntasks=8 --ntasks-per-node=4", "-n 8 x",
		},
		"gorun sbatch -n 10 --nproc-per-node 4 x": {
			"--nodes=3 --ntasks=10 --ntasks-per-node=4", "-n 10 x",
		},
		"gorun sbatch -N 2 --ntasks-per-node 1 -c 32 --nproc-per-node 4 x": {
			"--nodes=2 --ntasks-per-node=1 --cpus-per-task=32", "--nproc-per-node 4 x",
		},
		"gorun sbatch --nproc-per-node gpu --gpus-per-node 8 -c 64 x": {
			"--gpus-per-node=8 --cpus-per-task=64", "--nproc-per-node gpu x",
		},
		"gorun sbatch -N 2 -n 2 --gpus-per-node 4 x": {
			"--nodes=2 --gpus-per-node=4 --ntasks=2", "--nproc-per-node 1 x",
		},
		"gorun sbatch -t 5 -t 10 x":                {"--time=10", "x"},
		"gorun sbatch -G 2 --gpus a100:4 x":        {"--gpus=a100:4", "x"},
		"gorun sbatch --exclusive x":               {"--exclusive", "x"},
		"gorun sbatch --exclusive=user --nice=5 x": {"--exclusive=user --nice=5", "x"},
		"gorun sbatch -p a -A b -q c -J d -o e -e f -w g -C h -D i -d j -a 0-3 x": {"--partition=a --account=b --qos=c " +
			"--job-name=d --output=e --error=f " +
			"--nodelist=g --constraint=h --chdir=i --dependency=j --array=0-3", "x"},
		"gorun sbatch -O --foo=bar --sbatch-option --baz x": {"--foo=bar --baz", "x"},
		"gorun sbatch -x A=b --timeout 30m --wdir d -vv x":  {"", "-x A=b --timeout 30m --wdir d --verbose --verbose x"},
		"gorun sbatch -m -t3 pkg.train":                     {"--time=3", "--module pkg.train"},
		"gorun sbatch --tee 3 --log-dir l x -n 3":           {"", "--tee 3 --log-dir l x -n 3"},
		"gorun sbatch --engine=slurm x":                     {"", "--engine slurm x"},
		"gorun sbatch -n 2 x : y":                           {"--ntasks=2", "-n 2 x : y"},
		"gorun sbatch -n 1 x : -n 3 --wdir d y":             {"--ntasks=4", "-n 1 x : -n 3 --wdir d y"},
		"gorun sbatch -n 2 -- x : -n 1":                     {"--ntasks=2", "-n 2 -- x : -n 1"},
	} {
		inv := mustBe[*sbatchOptions](t, typed)
		require.Equal(t, want[0], strings.Join(inv.requested, " "), typed)
		require.Equal(t, want[1], strings.Join(inv.line, " "), typed)
		require.Empty(t, inv.Notes, typed)
	}
}

// The script omits options of the submission, and defaults do not override Slurm's variables.
func TestSbatchSubmission(t *testing.T) {
	b := mustBe[*sbatchOptions](t, "gorun sbatch --parsable -W --test-only sub/train.py")
	require.Equal(t, []string{"--parsable", "--wait", "--test-only"}, b.submission)
	require.Equal(t, []string{"--job-name=train.py"}, b.defaults)
	require.Empty(t, b.requested)
	require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -J a x").defaults)
	require.True(t, mustBe[*sbatchOptions](t, "gorun sbatch --dry-run x").DryRun)
}

// Variables are defaults of gorun's own options, which the job inherits. The script omits them, but gorun counts
// the ranks.
func TestSbatchVariables(t *testing.T) {
	b := mustBe[*sbatchOptions](t, "gorun sbatch -N 2 x", "GORUN_NPROC_PER_NODE=4", "GORUN_TIMEOUT=30m", "SLURM_JOB_ID=1",
		"GORUN_JOB=1")
	require.Equal(t, []string{"--nodes=2", "--ntasks-per-node=4"}, b.requested)
	require.Equal(t, []string{"x"}, b.line)
}

func TestSbatchNotes(t *testing.T) {
	require.Contains(t, mustBe[*sbatchOptions](t, "gorun sbatch -N 2 --nproc-per-node gpu x").Notes[0],
		"add --cpus-per-gpu N, -c N or --exclusive")
	require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -N 2 --nproc-per-node gpu --exclusive x").Notes)
}

// gorun quotes arguments. They reach the program as you typed them, even if a shell would expand them in the job.
func TestSbatchArgumentsAreNotReplaced(t *testing.T) {
	for _, word := range []string{"$SLURM_ARRAY_TASK_ID", "in-${SLURM_ARRAY_TASK_ID}.txt"} {
		notes := mustBe[*sbatchOptions](t, "gorun sbatch -a 0-3 ./p "+word).Notes
		require.Equal(t, []string{
			word + " is passed as it is, and no shell replaces variables in it: the program finds SLURM_ARRAY_TASK_ID in its " +
				"environment; or start a shell: bash -c './p ... " + word + "'",
		}, notes)
	}
	require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -a 0-3 bash -c $SLURM_ARRAY_TASK_ID").Notes)
	require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -a 0-3 ./p SLURM_ARRAY_TASK_ID $HOME").Notes)
}

// Slurm's -x excludes nodes; gorun's -x sets a variable for ranks.
func TestSbatchExcludesNoVariable(t *testing.T) {
	for _, nodes := range []string{"n1", "n1,n2", "n[1-3]", "1", "gpu-04", "n1.cluster"} {
		line := problems(t, "gorun sbatch -x "+nodes+" x")
		require.Len(t, line, 1)
		require.Contains(t, line[0], "--exclude ", nodes)
	}
	require.Contains(t, problems(t, "gorun sbatch -x n1 x")[0], "-x n1: -x gives ranks a variable, and none of that "+
		"name is set here; to leave out nodes, as Slurm's own -x does: --exclude n1")
	require.Equal(t, []string{"-x FOO: the variable is not set here, so ranks get it only where the job has it"},
		mustBe[*sbatchOptions](t, "gorun sbatch -x FOO x").Notes)
	for _, variable := range []string{"n1", "FOO", "my-var"} {
		require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -x "+variable+" x", variable+"=").Notes, variable)
	}
	require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -x n1=2 -x NCCL_* x").Notes)
}

// Slurm's -m is a distribution of tasks; gorun's -m is a Python module.
func TestSbatchDistributesNoModule(t *testing.T) {
	for _, how := range []string{
		"cyclic", "block", "arbitrary", "plane", "plane=4", "block:cyclic",
		"cyclic:block:fcyclic", "block,NoPack",
	} {
		require.Equal(t, []string{
			"-m " + how + ": -m starts a Python module; for Slurm's distribution write --distribution=" + how +
				", and --module " + how + " for a module of that name",
		}, problems(t, "gorun sbatch -m "+how+" ./trainer"))
	}
	for _, line := range []string{"--module cyclic", "-m cyclic.train", "-m blocks", "cyclic"} {
		require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch "+line).Notes, line)
	}
}

// If the program were a launcher, each rank would start all ranks.
func TestSbatchRefusesLaunchers(t *testing.T) {
	for program, ends := range map[string]string{
		"srun x":                   "leave srun out",
		"/opt/mpi/bin/mpirun x":    "leave /opt/mpi/bin/mpirun out",
		"gorun x":                  "leave gorun out",
		"torchrun x":               "leave torchrun out",
		"-m torch.distributed.run": "leave torch.distributed.run out",
	} {
		refused := problems(t, "gorun sbatch -n 4 "+program)
		require.Len(t, refused, 1, program)
		require.Contains(t, refused[0], ends)
	}
	for _, program := range []string{"x srun", "-m srun", "srun.py", "srun/x"} {
		require.Empty(t, mustBe[*sbatchOptions](t, "gorun sbatch -n 4 "+program).Notes, program)
	}
}

// Arguments reach the program unchanged, through the script and bash.
func TestWordsSurviveTheBatchScript(t *testing.T) {
	words := []string{
		"", "--", "-n", "a b", "it's", `"`, `\`, `\\n`, "$HOME", "`id`", "$(id)", "!!", "~", "*", "a\nb",
		"a\r\nb", "\x01\x7f", "é", "\xff", "#x", "a=b", "\n#SBATCH --nodes=3",
	}
	random := testneeds.Rand(t)
	for range testneeds.Count(200, 5000) {
		words = append(words, anyWord(random))
	}
	const printf = "/usr/bin/printf"
	script := (&sbatchOptions{line: append([]string{`%s\0`}, words...)}).script(printf)
	require.NotContains(t, script, "\r")
	bash := exec.Command("bash")
	bash.Stdin = strings.NewReader(script)
	said, err := bash.Output()
	require.NoError(t, err)
	require.Equal(t, words, strings.Split(strings.TrimSuffix(string(said), "\x00"), "\x00"))
}

// anyWord contains mostly characters that are special to a shell.
func anyWord(random *rand.Rand) string {
	const special = "ab '\"\\$`!#&|;<>()[]{}*?~=\n\r\t-"
	word := make([]byte, random.IntN(12))
	for i := range word {
		word[i] = special[random.IntN(len(special))]
		if random.IntN(4) == 0 {
			word[i] = byte(1 + random.IntN(255))
		}
	}
	return string(word)
}

// sbatch interprets quotes, backslashes and #. The expected values are from Slurm 22.05.
func TestOptionsInTheBatchScript(t *testing.T) {
	for option, line := range map[string]string{
		"--hold":                 "--hold",
		"--nodes=2":              "--nodes=2",
		"--nodelist=n[1-3,5]":    "--nodelist=n[1-3,5]",
		"--signal=B:USR1@60":     "--signal=B:USR1@60",
		"--output=%x-%j.out":     "--output=%x-%j.out",
		"--comment=two words #1": `--comment="two words #1"`,
		`--comment=a"b\c'd`:      `--comment="a\"b\\c'd"`,
		"--comment=":             `--comment=""`,
	} {
		require.Equal(t, line, sbatchQuote(option))
	}
}

// A job that another job submits is not one of its steps.
func TestBatchJobsForgetTheJobAround(t *testing.T) {
	require.Equal(t, []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SBATCH_PARTITION=p", "GORUN_LABEL=never"},
		withoutJob([]string{
			"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURMD_NODENAME=n1",
			"SBATCH_PARTITION=p",
			"GORUN_JOB=x", "GORUN_JOB_ENGINE=slurm:7", "GORUN_JOB_KEY=/k", "GORUN_JOB_STORE=h:1", "GORUN_LABEL=never",
		}))
}
