package launcher

import (
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// A signal that node 0 has not answered when it was lost is for the wait that follows.
func TestSignalAtTheLossOfNode0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(Spec{Join: &job.JoinSpec{}}, Options{})
		s.signals = newSignals(&s.settings)
		over := make(chan struct{})
		go s.forwardSignals(make(chan syscall.Signal, 1), over)
		for range 2 { // the agent takes the first
			s.signals.received <- syscall.SIGTERM
		}
		synctest.Wait()
		close(over)
		synctest.Wait()
		require.Len(t, s.signals.received, 1)
	})
}
