package dialect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/internal/testneeds"
	"gorun/launcher/job"
)

// TestOrderOfSources: an option overrides GORUN_*, which overrides PET_*, which overrides the other variables of
// torchrun.
func TestOrderOfSources(t *testing.T) {
	variables := []string{
		"GORUN_LOG_LINE_PREFIX_TEMPLATE=gorun", "PET_LOG_LINE_PREFIX_TEMPLATE=pet",
		"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=torch",
	}
	template := func(line string, variables ...string) string {
		return mustParse(t, line, variables...).Spec.Output.Template
	}
	require.Equal(t, "flag", template("gorun --log-line-prefix-template flag x", variables...))
	require.Equal(t, "gorun", template("gorun x", variables...))
	require.Equal(t, "pet", template("gorun x", variables[1:]...))
	require.Equal(t, "torch", template("gorun x", variables[2:]...))
	require.Equal(t, "torch",
		template("torchrun x", append(variables[2:], "GORUN_LOG_LINE_PREFIX_TEMPLATE=", "PET_LOG_LINE_PREFIX_TEMPLATE=")...),
		"an empty variable is not set")
}

func TestGraceOfTorchrun(t *testing.T) {
	const variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7"
	require.Equal(t, 7*time.Second, mustParse(t, "torchrun x", variable).Spec.Grace)
	require.Equal(t, 8*time.Second, mustParse(t, "torchrun --grace 8 x", variable).Spec.Grace)
	require.Equal(t, 9*time.Second, mustParse(t, "torchrun x", variable, "PET_SHUTDOWN_TIMEOUT=9").Spec.Grace)
	require.Equal(t, time.Duration(0), mustParse(t, "gorun x", variable).Spec.Grace, "gorun's own default stays")
}

func TestVariables(t *testing.T) {
	for variable, check := range map[string]func(Invocation) any{
		"GORUN_NP=3":               func(i Invocation) any { return i.Spec.Apps[0].NumRanks == 3 },
		"GORUN_NPROC_PER_NODE=3":   func(i Invocation) any { return i.Spec.PerNode == fixed(3, "GORUN_NPROC_PER_NODE=3") },
		"PET_NPROC_PER_NODE=gpu":   func(i Invocation) any { return i.Spec.PerNode.Kind == job.CountGPU },
		"PET_NNODES=1":             func(i Invocation) any { return i.Spec.NumNodes == 1 },
		"PET_TEE=3":                func(i Invocation) any { return i.Spec.Output.Tee.All == 3 },
		"PET_REDIRECTS=0:1":        func(i Invocation) any { return i.Spec.Output.Redirect.Of(0) == 1 },
		"PET_MODULE=1":             func(i Invocation) any { return i.Spec.Apps[0].Start == job.StartModule },
		"PET_MODULE=0":             func(i Invocation) any { return i.Spec.Apps[0].Start == job.StartAuto },
		"PET_NO_PYTHON=true":       func(i Invocation) any { return i.Spec.Apps[0].Start == job.StartExec },
		"PET_VIRTUAL_LOCAL_RANK=1": func(i Invocation) any { return i.Spec.VirtualLocalRank },
		"PET_MASTER_PORT=7": func(i Invocation) any {
			return i.Spec.Store.Port == 7 && i.Spec.Store.From == "PET_MASTER_PORT=7"
		},
		"GORUN_HOST=localhost:3": func(i Invocation) any {
			return i.Spec.Hosts[0].Slots == 3 && i.Spec.HostsFrom == "GORUN_HOST=localhost:3"
		},
		"GORUN_HOSTFILE=here.txt": func(i Invocation) any { return i.Spec.Hosts[0].Slots == 3 },
		"GORUN_TIMEOUT=1m":        func(i Invocation) any { return i.Spec.Timeout == time.Minute },
		"GORUN_VERBOSE=2":         func(i Invocation) any { return i.Verbose == 2 },
		"GORUN_VERBOSE=true":      func(i Invocation) any { return i.Verbose == 1 },
		"GORUN_VERBOSE=0":         func(i Invocation) any { return i.Verbose == 0 },
		"GORUN_QUIET=yes":         func(i Invocation) any { return i.Quiet },
		"GORUN_DRY_RUN=1":         func(i Invocation) any { return i.DryRun },
		"GORUN_CHDIR=/d":          func(i Invocation) any { return i.Spec.Dir == "/d" },
		"GORUN_PYTHON=py": func(i Invocation) any {
			return i.Spec.Apps[0].Interpreter == "py" && i.Spec.Apps[0].Start == job.StartAuto
		},
		"PYTHON_EXEC=py":       func(i Invocation) any { return i.Spec.Apps[0].Interpreter == "" },
		"GORUN_X=A=1":          func(i Invocation) any { return i.Spec.Exports == nil },
		"GORUN_HELP=1":         func(i Invocation) any { return i.Print == nil },
		"GORUN_VERSION=1":      func(i Invocation) any { return i.Print == nil },
		"GORUN_MAX_RESTARTS=0": func(i Invocation) any { return i.Spec.Apps[0].Program == "x" },
	} {
		require.Equal(t, true, check(mustParse(t, "gorun x", variable)), variable)
	}
	require.Equal(t, job.Count{Kind: job.CountFixed, N: 3, From: "PET_NPROC_PER_NODE=3"},
		mustParse(t, "torchrun x", "PET_NPROC_PER_NODE=3").Spec.PerNode)
}

func TestProblemsOfVariables(t *testing.T) {
	require.Equal(t, []string{
		"GORUN_NP=x: not a number from 1 to 1048576", "GORUN_QUIET=perhaps: a switch is 1 or 0, true or false",
		"GORUN_VERBOSE=-1: a switch is 1 or 0, true or false",
	}[:1], problems(t, "gorun x", "GORUN_NP=x"))
	require.Equal(t, []string{"GORUN_QUIET=perhaps: a switch is 1 or 0, true or false"},
		problems(t, "gorun x", "GORUN_QUIET=perhaps"))
	require.Equal(t, []string{"PET_MAX_RESTARTS=x: not a number from 0 on"},
		problems(t, "torchrun x", "PET_MAX_RESTARTS=x"))
	require.Equal(t, 3, mustParse(t, "torchrun x", "PET_MAX_RESTARTS=3").Spec.Restarts.Max)
	require.Equal(t, []string{"GORUN_NP=3 contradicts GORUN_NPROC_PER_NODE=2, which makes 2 on one host"},
		problems(t, "gorun x", "GORUN_NP=3", "GORUN_NPROC_PER_NODE=2"), "two variables of one strength contradict each other")
}

// An unknown variable gets one note, with a suggestion.
func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"GORUN_NPROC": "GORUN_NP", "GORUN_PPN": "GORUN_NPROC_PER_NODE", "GORUN_NUM_PROCESSES": "GORUN_NP",
		"GORUN_N":    "GORUN_NP",
		"GORUN_WDIR": "GORUN_CHDIR", "GORUN_HOSTS": "GORUN_HOST", "GORUN_TIMEOUTS": "GORUN_TIMEOUT",
		"GORUN_VERB":       "GORUN_VERBOSE",
		"GORUN_FROBNICATE": "", "GORUN_X": "", "GORUN_MCA": "", "GORUN_": "",
	} {
		text := variable + ": no option has this variable"
		if want != "" {
			text += "; did you mean " + want + "?"
		}
		require.Equal(t, []string{text}, mustParse(t, "gorun x", variable+"=3", variable+"=3", "NPROC=1").Notes)
		require.Equal(t, text, mustParse(t, "mpirun x", variable+"=3").Notes[0])
		require.Empty(t, mustParse(t, "gorun x", variable+"=").Notes, "an empty variable is not set")
		require.Empty(t, mustParse(t, "gorun -x GORUN_F* -x "+variable+"=1 x", variable+"=3").Notes, "it is meant for ranks")
	}
	require.Empty(t, mustParse(t, "gorun ./a", "GORUN_RUNTIME_DIR=/run/x").Notes)
	require.Equal(t, "GORUN_GRAC: no option has this variable; did you mean GORUN_GRACE?",
		mustParse(t, "torchrun x", "GORUN_GRAC=3").Notes[0])
	for _, own := range []string{
		env.VarJob, env.VarJobStore, env.VarPython, env.VarToken, "GORUN_USE_ENV", "GORUN_ROLE",
		testneeds.SkipLogVariable, testneeds.SeedVariable, testneeds.SoakVariable,
	} {
		require.Empty(t, mustParse(t, "gorun x", own+"=here").Notes, own)
	}
}

// One option on the command line overrides the variables of all options of its family.
func TestFlagsSettleTheirFamily(t *testing.T) {
	spec := mustParse(t, "gorun -n 3 x", "GORUN_NPROC_PER_NODE=2", "PET_NPROC_PER_NODE=4").Spec
	require.Equal(t, job.CountUnset, spec.PerNode.Kind)
	spec = mustParse(t, "gorun --nproc-per-node 3 x", "GORUN_NP=2").Spec
	require.Equal(t, 0, spec.Apps[0].NumRanks)
	spec = mustParse(t, "gorun x", "GORUN_NP=2", "PET_NPROC_PER_NODE=4").Spec
	require.Equal(t, 2, spec.Apps[0].NumRanks)
	require.Equal(t, job.CountUnset, spec.PerNode.Kind)

	require.Equal(t, time.Second, mustParse(t, "gorun --shutdown-timeout 1 x", "GORUN_GRACE=9").Spec.Grace)
	require.Equal(t, job.LabelNever, mustParse(t, "gorun --label never x", "GORUN_TAG_OUTPUT=1").Spec.Output.Label)
	require.Equal(t, "-H localhost:1", mustParse(t, "gorun -H localhost:1 x", "GORUN_HOSTFILE=missing.txt").Spec.HostsFrom)
	require.Equal(t, job.StartExec, mustParse(t, "gorun --no-python x", "PET_MODULE=1").Spec.Apps[0].Start)
	require.False(t, mustParse(t, "gorun -v x", "GORUN_QUIET=1").Quiet)
}
