package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cores are found by kernel.core_pattern: those of this process, and of this job.
func TestCoreFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no [pattern")
	require.NoError(t, os.Mkdir(dir, 0o700))
	began := time.Now().Add(-time.Minute)
	for _, name := range []string{"core.7", "../core.python3.9.1764", "old"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("core"), 0o600))
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, "old"), began, began.Add(-time.Hour)))
	for pattern, want := range map[string]string{
		"core":                               dir + "/core.7 (4 bytes)", // with kernel.core_uses_pid
		filepath.Dir(dir) + "/core.%e.%p.%t": filepath.Dir(dir) + "/core.python3.9.1764 (4 bytes)",
		"old%%":                              "no core found at " + dir + "/old%",
		"old":                                "no core found at " + dir + "/old",
		"|/usr/share/apport/apport %p":       "its core went to the program of the pattern",
		"|/lib/systemd/systemd-coredump x":   "`coredumpctl info 9` shows its core",
	} {
		pid := 9
		if pattern == "core" {
			pid = 7
		}
		assert.Equal(t, want, coreFile(pattern, dir, pid, began), pattern)
	}
}

// Only errors and losses of the job's time count.
func TestChangedCounters(t *testing.T) {
	before := errorCounters()
	assert.Contains(t, before, "lo received errs")
	assert.NotContains(t, before, "lo received bytes")
	now := map[string]int64{"eth0 sent drop": 7, "eth1 sent drop": 2}
	assert.Equal(t, "eth0 sent drop: 7, 5 before the job\n",
		string(changes(map[string]int64{"eth0 sent drop": 5, "eth1 sent drop": 2}, now)))
}
