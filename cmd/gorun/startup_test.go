package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// dumps runs a command under a shell that allows core dumps, and reports whether it left one. Its guard leaves nothing.
func dumps(t *testing.T, line string) bool {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir, private := t.TempDir(), t.TempDir()
	for _, name := range []string{"gorun", "rank"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited && "+line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTRACEBACK=crash", "TMPDIR="+private, "XDG_STATE_HOME="+dir,
		"PATH="+dir+":"+os.Getenv("PATH"))
	said, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended, "%s", said)
	status := ended.Sys().(syscall.WaitStatus)
	require.Equal(t, syscall.SIGABRT, status.Signal(), "%v: %s", status, said)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(private)
		return err == nil && len(entries) == 0
	}, time.Minute, time.Millisecond)
	return status.CoreDump()
}

// A gorun that crashes leaves no core dump, which would contain its secrets.
func TestGorunDumpsNoCore(t *testing.T) {
	t.Parallel() // a Go program takes seconds to crash
	if !dumps(t, "kill -ABRT $$") {
		testneeds.Skip(t, "coredump", "nothing can dump core here")
	}
	require.False(t, dumps(t, "exec gorun -n 1 rank tell=6"))
}
