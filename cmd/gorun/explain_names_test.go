package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/doctor/signature"
)

// A variable that a text of gorun explain names is one that gorun env --explain knows: who is told to look at it looks
// there.
func TestVariablesOfErrorsAreExplained(t *testing.T) {
	name := regexp.MustCompile(`\$?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b|\b(PYTHON|LD_)[A-Z_]+\b`)
	// noVariables are constants, errors and rights, and the beginnings of names.
	noVariables := []string{
		"SYS_NICE", "SYS_PTRACE", "IPC_LOCK", "MPI_COMM_WORLD", "MPI_ERRORS_ARE_FATAL", "MPI_ABORT", "MPI_INIT",
		"OMPI_MCA", "NCCL_SOCKET", "NCCL_IB", "OUT_OF_MEMORY", "ROW_REMAPPER", "LD_",
	}
	counted := 0
	for _, s := range signature.All() {
		texts := append([]string{s.Cause, s.Check, s.Fix, s.Hint}, s.Variables...)
		for _, found := range name.FindAllString(strings.Join(texts, "\n"), -1) {
			switch {
			case slices.Contains(noVariables, found), strings.HasPrefix(found, "IBV_WC_"),
				strings.HasPrefix(found, "$SLURM_"), strings.HasPrefix(found, "MPI_ERR_"):
				continue
			}
			counted++
			require.True(t, isExplained(strings.TrimPrefix(found, "$")), "%s names %s", s.ID, found)
		}
	}
	require.Greater(t, counted, 100)
}
