package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A launcher as the program would start every rank once for each rank: in a batch job that is refused, in an allocation
// remarked.
func TestLaunchersAsPrograms(t *testing.T) {
	for program, ends := range map[string]string{
		"srun x":                   "leave srun out",
		"/opt/mpi/bin/mpirun x":    "leave /opt/mpi/bin/mpirun out",
		"gorun x":                  "leave gorun out",
		"torchrun x":               "leave torchrun out (gorun knows its options)",
		"-m torch.distributed.run": "leave torch.distributed.run out (gorun knows its options)",
	} {
		refused := problems(t, "gorun sbatch -n 4 "+program)
		require.Len(t, refused, 1, program)
		require.Contains(t, refused[0], ends)
		require.Contains(t, mustParse(t, "gorun "+program, allocation...).Notes, refused[0], program)
		require.NotContains(t, mustParse(t, "gorun -n 1 "+program, allocation...).Notes, refused[0], program)
		require.Empty(t, mustParse(t, "gorun "+program).Notes, program)
	}
	for _, program := range []string{"x srun", "-m srun", "srun.py", "srun/x"} {
		require.Empty(t, mustParse(t, "gorun sbatch -n 4 "+program).Notes, program)
	}
}
