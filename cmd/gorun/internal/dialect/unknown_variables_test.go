package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/internal/testneeds"
)

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
