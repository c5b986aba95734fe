package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// TestFilesOfPlacedRanks: if each rank has its own agent, as under srun, the first agent to finish leaves the others'
// files. Otherwise the prefix of their names identifies a job's files.
func TestFilesOfPlacedRanks(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "vader_segment.node1.0.3f2a0000.1")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	absent := filepath.Join(dir, "vader_segment.node1.0.3f2a0000.2")
	foreign := filepath.Join(dir, "data.1")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	for name, c := range map[string]struct {
		own             *Joined
		paths, numbered []string
	}{
		"one agent":  {nil, nil, []string{filepath.Join(dir, "vader_segment.node1.0.3f2a0000.")}},
		"joined":     {&Joined{}, nil, []string{filepath.Join(dir, "vader_segment.node1.0.3f2a0000.")}},
		"an own one": {&Joined{Task: &spec.Task{Rank: 1, LocalRank: 1}}, []string{mine}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newJob(&Agent{cfg: Config{Joined: c.own}}, wire.Start{}).mpi
			m.noteSharedFiles([]string{mine, absent, foreign, filepath.Join(dir, "sm_segment.5")})
			var paths []string
			for _, o := range m.job.guard.Guarded().Owned {
				require.NotZero(t, o.Inode, "which one it is")
				paths = append(paths, o.Path)
			}
			require.Equal(t, c.paths, paths)
			require.Equal(t, c.numbered, m.job.guard.Guarded().Numbered)
		})
	}
}
