package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// If the program is a launcher, every rank starts all ranks again. In an allocation gorun notes that.
func TestLaunchersAsPrograms(t *testing.T) {
	for program, ends := range map[string]string{
		"srun x":                   "leave srun out",
		"/opt/mpi/bin/mpirun x":    "leave /opt/mpi/bin/mpirun out",
		"gorun x":                  "leave gorun out",
		"torchrun x":               "leave torchrun out (gorun knows its options)",
		"-m torch.distributed.run": "leave torch.distributed.run out (gorun knows its options)",
	} {
		noted := mustParse(t, "gorun "+program, allocation...).Notes
		require.Len(t, noted, 1, program)
		require.Contains(t, noted[0], ends)
		require.NotContains(t, mustParse(t, "gorun -n 1 "+program, allocation...).Notes, noted[0], program)
		require.Empty(t, mustParse(t, "gorun "+program).Notes, program)
	}
	for _, program := range []string{"x srun", "-m srun", "srun.py", "srun/x"} {
		require.Empty(t, mustParse(t, "gorun "+program, allocation...).Notes, program)
	}
}
