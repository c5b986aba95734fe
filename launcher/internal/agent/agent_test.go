package agent

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// A rank blocked on a page of a dead file system cannot be inspected. Other ranks do not wait for it: they get their
// signals.
func TestSignalsDoNotWaitForRanksThatHang(t *testing.T) {
	m, _, _ := fakeMPI(t)
	j := m.job
	hangs, healthy := asleep(t), asleep(t)
	j.signals.engine = &engineSignals{}
	j.group = process.NewGroup(sink{j})
	j.addRanks([]wire.Row{{Process: spec.Process{Rank: 5}}, {Process: spec.Process{Rank: 6}}}, []spec.App{{}})
	j.rank(5).pid.Store(int32(hangs))
	j.rank(6).pid.Store(int32(healthy))
	t.Cleanup(func() { _ = j.group.Close() })
	file := sharedMemory + "ucx_shm_posix_" + filepath.Base(t.TempDir()) + "_" + t.Name()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	defer os.Remove(file)
	looks, seen, never := make(chan int, 9), make(chan bool), make(chan bool)
	m.hooks.mapped = func(pid int, _ string, _ ...string) []string {
		looks <- pid
		if pid == healthy {
			defer close(seen)
			return []string{file}
		}
		<-never
		return []string{file + "late"}
	}
	m.Began(world.Proc{World: "w", Rank: 0}, "PMI-1")

	j.signal(spec.Signal{Number: syscall.SIGTERM, Group: true})
	assert.False(t, j.signals.endRequestedAt().IsZero())
	assert.False(t, j.signals.killed.Load())
	j.kill()
	assert.True(t, j.signals.killed.Load())
	assert.Len(t, looks, 2, "it was looked before the first signal, and for each rank once")
	<-seen
	j.timers.stop()
	close(never)
	j.guard.dismiss()
	assert.NoFileExists(t, file, "of a rank that could be looked at")
}

// What a resource manager sent before there were ranks, they have not got: they need it from the head.
func TestSignalBeforeThereAreRanks(t *testing.T) {
	ours, theirs := net.Pipe()
	head, signals := wire.NewLink(ours), make(chan syscall.Signal)
	a := &Agent{link: wire.NewLink(theirs), cfg: Config{Engine: EngineSignalsAll, Signals: signals}}
	a.lease.linkClosed = make(chan struct{})
	defer close(a.lease.linkClosed)
	go a.reportSignals()
	report := func() {
		signals <- syscall.SIGTERM
		f, err := head.Read()
		require.NoError(t, err)
		require.Equal(t, wire.TypeSignalled, f.Type)
	}
	report()
	assert.False(t, a.engine.has(syscall.SIGTERM))
	a.active.Store(&job{})
	report()
	assert.True(t, a.engine.has(syscall.SIGTERM))
}

// A second SIGINT ends a node that joined, whatever node 0 does, and is no loss of node 0.
func TestSecondSIGINT(t *testing.T) {
	ours, theirs := net.Pipe()
	signals, served := make(chan syscall.Signal), make(chan error)
	go func() { served <- Serve(wire.NewLink(theirs), Config{Signals: signals, Joined: &Joined{}}) }()
	signals <- syscall.SIGINT
	f, err := wire.NewLink(ours).Read()
	require.NoError(t, err)
	require.Equal(t, wire.TypeSignal, f.Type)
	signals <- syscall.SIGINT
	require.Equal(t, ErrInterrupted, <-served)
}

// asleep starts a process that sleeps until the test ends.
func asleep(t *testing.T) (pid int) {
	c := exec.Command("sleep", "600")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

// A spawner queries the end of a rank while a signal is being delivered.
func TestEndsOfRanksDoNotWaitForSignals(t *testing.T) {
	m, _, _ := fakeMPI(t)
	m.job.signals.mu.Lock()
	defer m.job.signals.mu.Unlock()
	m.job.signals.killed.Store(true)
	e := spec.Exit{Signal: syscall.SIGKILL}
	m.job.addNodeDetails(&e, wire.Row{Process: spec.Process{Rank: 5}})
	assert.Empty(t, e.OOM)
}

// Spawned ranks share local rank numbers with the first ranks, and have no log files.
func TestSpawnedRanksHaveNoLogs(t *testing.T) {
	logs, err := output.OpenLogs(output.LogPlan{
		RunDir: t.TempDir() + "/run", Ranks: []output.RankInfo{{}},
		Redirects: output.StreamMap{output.Stdout | output.Stderr},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(logs.Path(0, output.Stderr), []byte("the first one's\n"), 0o600))
	j := &job{jobFiles: jobFiles{logs: logs}}
	assert.Equal(t, "the first one's", j.lastLogged(wire.Row{}))
	assert.Empty(t, j.lastLogged(wire.Row{Process: spec.Process{Rank: 1, Spawned: true}}))
}

// The launcher stops itself when the ranks are reported to have stopped. One whose start is not over would go on alone.
func TestSuspendWaitsForRanksThatAreBeingStarted(t *testing.T) {
	j, received := growableJob(t)
	first := j.signals.begin()
	require.NoError(t, j.suspend())
	require.NoError(t, j.agent.link.Send(&wire.Running{}))
	j.replaySignals(nil, first)
	require.Equal(t, wire.TypeRunning, (<-received).Type)
	require.Equal(t, wire.TypeSuspend, (<-received).Type)
	require.NoError(t, j.suspend())
	require.Equal(t, wire.TypeSuspend, (<-received).Type)
}
