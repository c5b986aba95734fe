package launcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Each inspection gets only its own answers: --get-stack-traces and --hang-timeout may run at the same time.
func TestInspectionsDoNotOverlap(t *testing.T) {
	h, far := growingHead(t)
	h.inspected = make(chan answer[wire.Hung], len(h.nodes))
	received := make(chan int, 2) // number of ranks in each question
	for range 2 {
		go h.inspectRanks(0, false, func(hang *job.Hang) { received <- len(hang.Ranks) })
	}
	for range 2 {
		for i, link := range far {
			f, err := link.Read()
			require.NoError(t, err)
			require.Equal(t, wire.TypeInspect, f.Type)
			h.onHung(h.nodes[i], wire.Hung{Hang: spec.Hang{Ranks: []spec.Activity{{Rank: i, PID: 10 + i}}}})
		}
		require.Equal(t, 2, <-received)
	}
}

// Ranks may end while they are inspected.
func TestNoHangAfterTheEnd(t *testing.T) {
	h, far := growingHead(t)
	h.inspected = make(chan answer[wire.Hung], len(h.nodes))
	done := make(chan struct{})
	go func() { h.inspectHang(); close(done) }()
	for i, link := range far {
		_, err := link.Read()
		require.NoError(t, err)
		h.onHung(h.nodes[i], wire.Hung{Hang: spec.Hang{Ranks: []spec.Activity{{Rank: i, State: "ended with exit code 0"}}}})
	}
	<-done
	require.Nil(t, h.hang.Load())
}

// All nodes that do not report their ranks' activity share one timeout. The hang is still reported.
func TestHangReportWithSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := growingHead(t)
		h.spec = Spec{HangTimeout: time.Minute, OnHang: job.HangStop}
		began := time.Now()
		go func() { // nothing releases it
			time.Sleep(time.Hour)
			close(h.over)
		}()
		h.inspectHang()
		require.Equal(t, inspectTimeout, time.Since(began))
		require.NotNil(t, h.hang.Load())
		passed := false
		h.exits.pass(func() { passed = true })
		require.True(t, passed)
		time.Sleep(2 * time.Hour) // until the other goroutine ends
	})
}
