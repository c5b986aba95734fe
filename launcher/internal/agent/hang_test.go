package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/wire"
)

// Looking into ranks takes seconds, in which they may end and be started again. The head hears nothing of the hang
// then: it takes one for each start of ranks.
func TestHangOfAnAttemptThatIsOver(t *testing.T) {
	j, heard := growableJob(t)
	require.NoError(t, j.grow(growBy(1, "/bin/true", 10)))
	next[wire.Grown](t, heard)
	report := func() { j.report(wire.Inspect{Quiet: time.Second}, cpuSample{}, cpuSample{}) }
	report()
	next[wire.Hung](t, heard)
	j.timers.stop()
	report()
	require.NoError(t, j.agent.link.Send(&wire.CleanedUp{}))
	for f := range heard {
		assert.NotEqual(t, wire.TypeHung, f.Type)
		if f.Type == wire.TypeCleanedUp {
			return
		}
	}
}
