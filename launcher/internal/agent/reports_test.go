package agent

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// An attempt sends nothing after its end, which waits for frames already being sent.
func TestWordsOfAnAttempt(t *testing.T) {
	j, received := growableJob(t)
	j.startGate.Lock()
	require.NoError(t, j.grow(growBy(1, "/bin/true", 10)))
	over := make(chan struct{})
	go func() {
		defer close(over)
		j.reports.close()
		_ = j.agent.link.Send(&wire.CleanedUp{})
	}()
	eventually(t, func() bool {
		j.reports.mu.Lock()
		defer j.reports.mu.Unlock()
		return j.reports.over
	}, "the end has begun")
	require.NoError(t, j.grow(growBy(2, "/bin/true", 11)))
	j.startGate.closed = true
	j.startGate.Unlock()
	<-over
	j.mpi.Abort(world.Proc{World: "w"}, 1, "too late")
	var types []wire.Type
	for len(types) < 2 {
		types = append(types, (<-received).Type)
	}
	assert.Equal(t, []wire.Type{wire.TypeGrown, wire.TypeCleanedUp}, types)
	require.NoError(t, j.agent.link.Send(&wire.Notice{}))
	assert.Equal(t, wire.TypeNotice, (<-received).Type, "nothing came between")
}

// The launcher learns that a rank initialized MPI before other ranks can report that they wait for it.
func TestExitIsReportedBeforeOthersMissTheRank(t *testing.T) {
	j, received := growableJob(t)
	j.plane.Receive(&exchange.Message{Kind: exchange.Watch})
	first := world.Proc{World: "w"}
	j.mpi.server(protocolPMI)
	j.mpi.Began(first, "PMI-1")
	j.addRanks([]wire.Row{{Process: spec.Process{Rank: 1}}}, []spec.App{{}}) // a rank that continues
	j.endings.rankExited(spec.Exit{Rank: 0, MPI: j.mpi.state(0)})
	j.mpi.rankEnded(0)
	assert.Equal(t, wire.TypeEnded, (<-received).Type)
	assert.Equal(t, wire.TypeExchange, (<-received).Type)
}

// idleJob returns a job with one rank that nobody has started yet.
func idleJob(cfg Config) *job {
	_, side := reach.Local()
	j := newJob(&Agent{link: side, cfg: cfg}, wire.Start{
		Window: 1, Ranks: make([]wire.Row, 1), Apps: make([]spec.App, 1), Stdio: wire.Stdio{Piped: []int{0}},
	})
	j.guard.skipStart()
	return j
}

// Frames may come before the goroutine that starts the ranks has run.
func TestFramesBeforeTheStart(t *testing.T) {
	for _, m := range []wire.Message{&wire.Credit{Stream: 1, Bytes: 1}, &wire.Resize{}} {
		text, err := wire.Encode(m)
		require.NoError(t, err)
		f, err := wire.NewReader(bytes.NewReader(text)).Read()
		require.NoError(t, err)
		require.NoError(t, idleJob(Config{}).handle(f))
	}
}

// No goroutine waits for input after the end.
func TestInputAfterTheEnd(t *testing.T) {
	j := idleJob(Config{})
	close(j.startDone)
	j.finish(0)
	require.NoError(t, j.stdin.write(0, []byte("late")))
	require.Empty(t, j.stdin.feeds)
}

// A reader of this process's output that is stuck does not keep a node whose head is lost.
func TestStuckReaderWithoutHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		out := output.Destination{W: w}
		j := idleJob(Config{Display: &Display{Console: output.Config{Stdout: out, Stderr: out}}})
		close(j.startDone)
		j.display.Write(0, output.Stdout, []byte("unread"))
		j.abandon(maxLostGrace)
		require.NoError(t, r.Close())
	})
}

// A host file may be on a file server that does not answer. The end of the job does not wait for it.
func TestAFileOfHostsHoldsUpNobody(t *testing.T) {
	j, _ := growableJob(t)
	returned, answered := make(chan struct{}), make(chan error)
	go func() {
		defer close(returned)
		j.requestSpawn(world.Spawn{Apps: []world.SpawnApp{{HostFile: "/does/not/exist"}}}, func(_ string, err error) {
			answered <- err
		})
	}()
	<-returned // although the answer is never read
	require.ErrorContains(t, <-answered, "/does/not/exist")
}

// Only a rank that has not come as far, and works, may fail as another one did when it started.
func TestRanksBehindOneThatFailed(t *testing.T) {
	for want, pairs := range map[bool][][2]process.Proc{
		true: {{{State: 'R', CPU: 2}, {CPU: 5}}, {{State: 'D'}, {CPU: 1}}},
		false: {
			{{State: 'R', CPU: 5}, {CPU: 5}}, {{State: 'S', CPU: 2}, {CPU: 5}}, {{State: 'R', CPU: 2}, {CPU: 5000}},
		},
	} {
		for _, pair := range pairs {
			assert.Equal(t, want, isBehind(pair[0], pair[1]))
		}
	}
	// A node can have thousands of ranks, and each that fails asks.
	j, reads := &job{}, 0
	j.addRanks(make([]wire.Row, 1000), []spec.App{{}})
	j.othersBehind(1, func(int) (p process.Proc, err error) {
		reads++
		return
	})
	require.Equal(t, 1+maxBehindReads, reads)
}
