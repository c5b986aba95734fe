package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the program is a launcher, every rank starts all ranks again. In an allocation gorun notes that.
func TestLaunchersAsPrograms(t *testing.T) {
	for program, ends := range map[string]string{
		"srun x":                             "leave srun out",
		"/opt/mpi/bin/mpirun x":              "leave /opt/mpi/bin/mpirun out",
		"gorun x":                            "leave gorun out",
		"python3 -m torch.distributed.run x": "leave torch.distributed.run out (gorun knows its options)",
		"torchrun x":                         "leave torchrun out (gorun knows its options)",
		"-m torch.distributed.run":           "leave torch.distributed.run out (gorun knows its options)",
	} {
		noted := mustParse(t, "gorun "+program, allocation...).Notes
		require.Len(t, noted, 1, program)
		require.Contains(t, noted[0], ends)
		require.NotContains(t, mustParse(t, "gorun -n 1 "+program, allocation...).Notes, noted[0], program)
		require.Contains(t, mustParse(t, "gorun -n 2 "+program).Notes, noted[0], program)
		alone := mustParse(t, "gorun "+program).Notes
		require.Equal(t, strings.Contains(program, "torch"), len(alone) == 1, program)
	}
	for _, program := range []string{"x srun", "-m srun", "srun.py", "srun/x"} {
		require.Empty(t, mustParse(t, "gorun "+program, allocation...).Notes, program)
	}
}
