package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// Nodes that do not say what their ranks do are waited for once, not each, and the hang is told of.
func TestSilentNodesHoldNoHangBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := growingHead(t)
		h.hangTimeout, h.onHang = time.Minute, job.HangStop
		began := time.Now()
		go func() { // what holds it back holds it for ever
			time.Sleep(time.Hour)
			close(h.over)
		}()
		h.inspect()
		require.Equal(t, inspectTime, time.Since(began))
		require.NotNil(t, h.hang.Load())
		passed := false
		h.endings.pass(func() { passed = true })
		require.True(t, passed)
		time.Sleep(2 * time.Hour) // the other goroutine ends
	})
}
