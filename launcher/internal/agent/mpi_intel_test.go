package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
)

// A crash in Intel's MPI library may come from MPI_Comm_spawn.
func TestIntelMPIThatMayHaveSpawned(t *testing.T) {
	m, _, _ := fakeMPI(t)
	dir, intel := t.TempDir(), append(bytes.Repeat([]byte("x"), 1<<20-5), []byte(intelSpawn+"more")...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "intel"), intel, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mpich"), intel[:1<<20], 0o600))
	begun := &spec.RankMPI{Protocol: "PMI-1"}
	m.firstLibraryFile = filepath.Join(dir, "intel")
	assert.Contains(t, m.spawnHint(begun, []string{"A=b"}, nil), "-x I_MPI_SPAWN=on")
	for _, c := range []struct {
		file    string
		state   *spec.RankMPI
		environ []string
	}{
		{"intel", nil, nil},
		{"intel", &spec.RankMPI{Protocol: "PMI-1", Finalized: true}, nil},
		{"intel", &spec.RankMPI{Protocol: "PMIx 4.2.2"}, nil},
		{"intel", begun, []string{"I_MPI_SPAWN=off"}},
		{"mpich", begun, nil},
		{"missing", begun, nil},
	} {
		m.firstLibraryFile = filepath.Join(dir, c.file)
		assert.Empty(t, m.spawnHint(c.state, nil, c.environ), c)
	}
}
