package interop

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// A launch has a budget of what costs time. On Linux 6.18 with Go 1.26 it has 114 initialisers, 466 system calls until
// the rank runs, all of the guard's among them, and 720 to 740 page faults; the margins are for other systems. A busy
// machine adds calls and faults, so launches are repeated until they are within the budget. Of a file written at once,
// the page cache has larger pieces, for which the kernel faults less often, as long as its memory is not in pieces
// itself. So gorun is copied page by page.
func TestStartupBudget(t *testing.T) {
	strace := testneeds.Program(t, "strace", "strace")
	program := writtenInPages(t, built("gorun"))
	launch := func(before ...string) (said string, faults int) {
		words := append(before, program, "-n", "1", "/bin/true")
		c := exec.Command(words[0], words[1:]...)
		text, err := c.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return string(text), int(c.ProcessState.SysUsage().(*syscall.Rusage).Minflt)
	}
	initialisers, calls, faults := math.MaxInt, math.MaxInt, math.MaxInt
	within := func() bool { return initialisers <= 114 && calls <= 560 && faults <= 820 }
	for launches := 0; launches < 30 && !within(); launches++ {
		said, _ := launch("env", "GODEBUG=inittrace=1")
		initialisers = min(initialisers, strings.Count(said, "init "))
		said, _ = launch(strace, "-f", "-qq", "-e",
			"trace=!futex,nanosleep,epoll_pwait,sched_yield,restart_syscall,rt_sigreturn")
		start, _, _ := strings.Cut(said, `execve("/bin/true"`)
		calls = min(calls, strings.Count(start, "\n")-strings.Count(start, " resumed>"))
		_, n := launch()
		faults = min(faults, n)
	}
	t.Logf("%d initialisers, %d system calls, %d page faults", initialisers, calls, faults)
	require.True(t, within(), "over the budget")
}

// writtenInPages copies a program with one write for each page.
func writtenInPages(t *testing.T, program string) string {
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	copied, err := os.OpenFile(filepath.Join(t.TempDir(), filepath.Base(program)), os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	for page := range slices.Chunk(content, os.Getpagesize()) {
		_, err = copied.Write(page)
		require.NoError(t, err)
	}
	require.NoError(t, copied.Close())
	return copied.Name()
}
