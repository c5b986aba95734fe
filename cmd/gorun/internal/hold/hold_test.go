package hold

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// send sends a signal to this thread, which handles it before kill returns.
func send(t *testing.T, n syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Tgkill(os.Getpid(), syscall.Gettid(), n))
}

func TestReleaseDeliversHeldSignals(t *testing.T) {
	list := []os.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGUSR1}
	Signals(list)
	send(t, syscall.SIGTERM) // each of these would end the test
	send(t, syscall.SIGQUIT)
	send(t, syscall.SIGQUIT)
	ch := make(chan os.Signal, 9)
	signal.Notify(ch, list...)
	defer signal.Stop(ch)
	send(t, syscall.SIGINT)
	Release(ch)
	assert.Equal(t, syscall.SIGINT, <-ch)
	assert.Equal(t, syscall.SIGQUIT, <-ch)
	assert.Equal(t, syscall.SIGTERM, <-ch)
	assert.Empty(t, ch)

	send(t, syscall.SIGUSR1)
	assert.Equal(t, syscall.SIGUSR1, <-ch, "by Go's own handler")
	Release(ch)
	assert.Empty(t, ch, "a second time")
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	Signals([]os.Signal{syscall.SIGHUP, syscall.Signal(40)})
	send(t, syscall.SIGHUP)
	ch := make(chan os.Signal, 1)
	Release(ch)
	assert.Empty(t, ch)
}

// The default action of SIGTSTP would suspend the test.
func TestHeldSuspension(t *testing.T) {
	Signals([]os.Signal{syscall.SIGTSTP})
	send(t, syscall.SIGTSTP)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGTSTP)
	defer signal.Stop(ch)
	Release(ch)
	assert.Equal(t, syscall.SIGTSTP, <-ch)
	send(t, syscall.SIGTSTP)
	assert.Equal(t, syscall.SIGTSTP, <-ch, "by Go's own handler")
}

// Signals arrive on any thread at any time.
func TestSignalsWhileTheProgramWorks(t *testing.T) {
	Signals([]os.Signal{syscall.SIGUSR2})
	var busy sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		busy.Go(func() {
			for kept := [][]byte{}; ; kept = append(kept[len(kept)/2:], make([]byte, 1000)) {
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	for range 2000 {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
	}
	close(end)
	busy.Wait()
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGUSR2)
	defer signal.Stop(ch)
	Release(ch)
	select {
	case got := <-ch:
		assert.Equal(t, syscall.SIGUSR2, got)
	case <-time.After(time.Minute):
		t.Error("lost")
	}
}
