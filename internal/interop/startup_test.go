package interop

import (
	"math"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// A launch has a budget of what costs time. On Linux 6.18 with Go 1.26 it has 116 initialisers, 470 system calls until
// the rank runs, all of the guard's among them, and 560 to 650 page faults; the margins are for other systems. A busy
// machine adds calls, so the smallest of five counts decides.
func TestStartupBudget(t *testing.T) {
	strace := testneeds.Program(t, "strace", "strace")
	launch := func(before ...string) (said string, faults int) {
		words := append(before, built("gorun"), "-n", "1", "/bin/true")
		c := exec.Command(words[0], words[1:]...)
		text, err := c.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return string(text), int(c.ProcessState.SysUsage().(*syscall.Rusage).Minflt)
	}
	initialisers, calls, faults := math.MaxInt, math.MaxInt, math.MaxInt
	for range 5 {
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
	require.LessOrEqual(t, initialisers, 116)
	require.LessOrEqual(t, calls, 560)
	require.LessOrEqual(t, faults, 740)
}
