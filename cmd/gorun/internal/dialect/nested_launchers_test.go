package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A launcher as the program may have one rank on each host, and in an allocation one in all if it finds that, too.
func TestLaunchersAsPrograms(t *testing.T) {
	for line, want := range map[string]string{
		"-n 2 torchrun --nproc-per-node=4 a.py --lr 1": "run `gorun --nproc-per-node=4 a.py --lr 1`, " +
			"or for several jobs `gorun -n 2 sh -c 'exec torchrun --nproc-per-node=4 a.py --lr 1'`",
		"-H a:2 -- /x/mpirun -x A=1 b":              "run `gorun -H a:2 -x A=1 b`, or ",
		"python3 -u -m torch.distributed.run x":     "run `gorun x`, or for several jobs `gorun sh -c 'exec python3 -u -m ",
		"-m torch.distributed.run x":                "run `gorun x`, or for several jobs `gorun sh -c 'exec python3 -m ",
		"gorun ./x":                                 "run `gorun ./x`, or ",
		"srun -N 2 x":                               "leave srun out, or for several jobs `gorun sh -c ",
		"-n 1 true : -n 2 deepspeed --num_gpus 2 x": "leave deepspeed out",
	} {
		for _, variables := range [][]string{nil, allocation} {
			apps := mustParse(t, "gorun "+line, variables...).Spec.Apps
			alone := apps[len(apps)-1].Alone
			require.NotNil(t, alone, line)
			_, why, _ := strings.Cut(alone.Why, ": each would start a job of its own: ")
			require.True(t, strings.HasPrefix(why, want), alone.Why)
			inJob := variables != nil && !strings.Contains(line, "torch") && !strings.Contains(line, "deepspeed")
			require.Equal(t, inJob, alone.InJob, line)
			require.Equal(t, inJob, !strings.Contains(alone.Why, "several ranks on one host"), alone.Why)
		}
	}
	for _, program := range []string{
		"x srun", "-m srun", "srun.py", "srun/x", "torchrun --help", "torchrun --nnodes 2 x", "python3 -m", "python3 x -m",
	} {
		require.Nil(t, mustParse(t, "gorun "+program, allocation...).Spec.Apps[0].Alone, program)
	}
	for line, notes := range map[string]int{"gorun -n 2 x": 0, "-n 2 gorun -n 2 x": 1, "-n 2 mpirun -np 2 x": 1} {
		inv := mustParse(t, "gorun "+line)
		require.Nil(t, inv.Spec.Apps[0].Alone, line)
		require.Len(t, inv.Notes, notes, line)
	}
	require.False(t, mustParse(t, "gorun mpirun -H a,b x", allocation...).Spec.Apps[0].Alone.InJob)
}
