package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// An inspection takes seconds, in which the attempt may end. It sends no Hung frame then: the head expects at most one
// per attempt.
func TestHangOfAnAttemptThatIsOver(t *testing.T) {
	j, received := growableJob(t)
	require.NoError(t, j.grow(growBy(1, "/bin/true", 10)))
	next[wire.Grown](t, received)
	report := func() { j.report(wire.Inspect{Quiet: spec.Seconds(time.Second)}, cpuSample{}, cpuSample{}) }
	report()
	next[wire.Hung](t, received)
	j.timers.stop()
	report()
	require.NoError(t, j.agent.link.Send(&wire.CleanedUp{}))
	for f := range received {
		assert.NotEqual(t, wire.TypeHung, f.Type)
		if f.Type == wire.TypeCleanedUp {
			return
		}
	}
}
