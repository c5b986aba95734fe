package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Slurm's -x leaves out nodes, gorun's gives ranks a variable.
func TestSbatchExcludesNoVariable(t *testing.T) {
	for _, nodes := range []string{"n1", "n1,n2", "n[1-3]", "1", "gpu-04", "n1.cluster"} {
		line := problems(t, "gorun sbatch -x "+nodes+" x")
		require.Len(t, line, 1)
		require.Contains(t, line[0], "--exclude ", nodes)
	}
	require.Contains(t, problems(t, "gorun sbatch -x n1 x")[0], "-x n1: -x gives ranks a variable, and none of that "+
		"name is set here; to leave out nodes, as Slurm's own -x does: --exclude n1")
	require.Equal(t, []string{"-x FOO: the variable is not set here, so ranks get it only where the job has it"},
		mustParse(t, "gorun sbatch -x FOO x").Notes)
	for _, variable := range []string{"n1", "FOO", "my-var"} {
		require.Empty(t, mustParse(t, "gorun sbatch -x "+variable+" x", variable+"=").Notes, variable)
	}
	require.Empty(t, mustParse(t, "gorun sbatch -x n1=2 -x NCCL_* x").Notes)
}

// Slurm's -m is a distribution of tasks, gorun's a Python module.
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
		require.Empty(t, mustParse(t, "gorun sbatch "+line).Notes, line)
	}
}
