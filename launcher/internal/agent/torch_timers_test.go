package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// A rank's first timer may arrive before its start is complete, and counts.
func TestTimerOfARankThatIsBeingStarted(t *testing.T) {
	j, _ := growableJob(t)
	j.addRanks([]wire.Row{{Process: spec.Process{Rank: 1}}}, []spec.App{{}})
	j.watchdog.timers, j.watchdog.noticed = map[timerKey]fileTimer{}, map[string]bool{}
	j.startGate.Lock()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		j.takeTimer(fmt.Appendf(nil, `{"pid": %d, "scope_id": "a", "expiration_time": 1e9, "signal": 9}`, unix.Getpid()))
	}()
	select {
	case <-taken:
		assert.Fail(t, "it was judged while a rank was being started")
	case <-time.After(10 * time.Millisecond): // it may arrive at any time from now on
	}
	j.rank(1).pid.Store(int32(unix.Getpid())) // not its session, whose leader can be in another PID namespace
	j.startGate.Unlock()
	<-taken
	assert.Len(t, j.watchdog.timers, 1)
	assert.Empty(t, j.watchdog.noticed)
	j.rank(1).pid.Store(0)
}
