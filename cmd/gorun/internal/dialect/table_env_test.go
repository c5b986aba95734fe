package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

func TestEnv(t *testing.T) {
	inv := mustParse(t, "gorun env")
	require.Equal(t, ShowEnv, inv.Action)
	require.Equal(t, EnvWish{}, *inv.Env)
	require.Equal(t, anyProgram, inv.Spec.Apps[0].Program)
	require.Equal(t, job.StartExec, inv.Spec.Apps[0].Start)

	// The job is the one that gorun would run.
	for _, line := range []string{"-np 4 -H a:2,b:2 --map-by numa -x A=1 prog -x", "--nproc-per-node 2 -m pkg.train", "-n 1 a : -n 2 b"} {
		job, env := mustParse(t, "gorun "+line), mustParse(t, "gorun env "+line)
		require.Equal(t, job.Spec, env.Spec, line)
		require.Equal(t, job.Notes, env.Notes, line)
	}

	inv = mustParse(t, "gorun env --explain NCCL_DEBUG NCCL_IB_*")
	require.Equal(t, []string{"NCCL_DEBUG", "NCCL_IB_*"}, inv.Env.Explain)
	require.Empty(t, inv.Spec)
	inv = mustParse(t, "gorun env --lint --library none a.sh - b.py --json")
	require.Equal(t, EnvWish{Lint: true, Library: "none", Files: []string{"a.sh", "-", "b.py", "--json"}}, *inv.Env)
	inv = mustParse(t, "gorun env --json --lint")
	require.True(t, inv.JSON && inv.Env.Lint && inv.Env.Files == nil)
	require.True(t, mustParse(t, "gorun env --shell -n 2").Env.Shell)
}

func TestEnvRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"--lint --shell":          "--lint and --shell contradict each other: ask for one at a time",
		"--explain A --lint":      "--explain and --lint contradict each other: ask for one at a time",
		"--shell --json":          "--shell and --json contradict each other: ask for one at a time",
		"--library x":             "--library says what --lint is to compare with: add --lint",
		"-n 2 --nproc-per-node 3": "-n 2 contradicts --nproc-per-node 3, which makes 3 on one host",
	} {
		require.Equal(t, []string{want}, problems(t, "gorun env "+line), line)
	}
	require.Contains(t, strings.Join(problems(t, "gorun env --repot x"), ""), "unknown option --repot")
}
