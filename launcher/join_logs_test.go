package launcher_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher"
	"gorun/launcher/job"
)

// Each node that joined has its log files where its own command line puts them, in all attempts. Without a directory
// there, they are in its temporary directory.
func TestLogsOfJoinedNodes(t *testing.T) {
	dir := t.TempDir()
	parts := together(t, "flaky", 3, func(node int, s *launcher.Spec) {
		s.Restarts = job.Restarts{Max: 2, Delay: -1}
		s.Output.Redirect.All = job.Stdout
		s.Output.LogDir = filepath.Join(dir, "node_"+string(rune('0'+node)))
		if node == 2 {
			s.Output.LogDir = ""
			s.Environ = append(s.Environ, "TMPDIR="+dir)
		}
	})
	for node, p := range parts {
		require.NoError(t, p.err, "node %d", node)
		require.Zero(t, p.result.ExitCode, p.notice.String())
	}
	for node, pattern := range []string{"node_0/*/*", "node_1/*/*", "torchelastic_*/*/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern, "attempt_2/*/stdout.log"))
		require.NoError(t, err)
		require.Len(t, files, 2, "node %d", node)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Contains(t, string(text), "attempt 2: rank ")
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "gorun-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// The report names the log file of a failed rank by its path on the other node.
func TestReportNamesLogsOfJoinedNodes(t *testing.T) {
	dir := t.TempDir()
	parts := together(t, "fail", 2, func(node int, s *launcher.Spec) {
		s.Output.Redirect.All = job.Stdout
		s.Output.LogDir = filepath.Join(dir, "node_"+string(rune('0'+node)))
		if node == 0 {
			s.PerNode.N = 1 // rank 1 fails, on the other node
		}
	})
	require.NoError(t, parts[0].err)
	require.NotNil(t, parts[0].result.First)
	assert.True(t, strings.HasPrefix(parts[0].result.First.Log, filepath.Join(dir, "node_1")), parts[0].result.First.Log)
	assert.DirExists(t, parts[0].result.First.Log)
}
