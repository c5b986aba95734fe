package agent

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/world"
)

// mpi is the servers' world.Launcher: it tracks how far ranks have come and forwards what the head decides.
var _ world.Launcher = (*mpi)(nil)

// rank returns the rank of the job for a member of a world; -1: none.
func (m *mpi) rank(p world.Proc) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rankOf(p)
}

// rankOf is rank with mu held.
func (m *mpi) rankOf(p world.Proc) int {
	w := m.worlds[p.World]
	if w == nil || p.Rank < 0 || p.Rank >= len(w.Ranks) {
		return -1
	}
	return w.Ranks[p.Rank].Job
}

// Began may be called again for a rank that has finalized, or for another process of it.
func (m *mpi) Began(p world.Proc, protocol string) {
	m.noteWorldFiles(p.World)
	m.mu.Lock()
	first := len(m.states) == 0
	m.states[m.rankOf(p)] = &spec.RankMPI{Protocol: protocol}
	mixed := m.noteProtocol(protocol)
	m.mu.Unlock()
	if first { // on other goroutines: the server may hold a lock
		m.job.timers.after(0, m.job.watchMPIWaits)
		m.job.timers.after(0, func() { m.noteLibraryFile(p) })
	}
	if mixed {
		for _, after := range mixtureCheckTimes {
			m.job.timers.after(after, m.reportMixture)
		}
	}
}

func (m *mpi) Finalized(p world.Proc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.states[m.rankOf(p)]; s != nil {
		s.Finalized = true
	}
}

// leftTimeout is the time for a rank's process to exit after it has left MPI without MPI_Finalize. A shell whose
// program has crashed may go on, while others wait for the rank.
const leftTimeout = 5 * time.Second

// Left reports a rank whose process goes on. If it exits, its exit status says whether leaving MPI matters.
func (m *mpi) Left(p world.Proc) {
	rank := m.rank(p)
	m.mu.Lock()
	left := m.states[rank]
	m.mu.Unlock()
	m.job.timers.after(leftTimeout, func() {
		m.mu.Lock()
		same := left != nil && m.states[rank] == left && !left.Finalized
		m.mu.Unlock()
		if r := m.job.rank(rank); same && r != nil && r.end.Load() == nil {
			m.job.agent.notice("rank %d left MPI without MPI_Finalize %s ago and still runs: ranks that wait for it "+
				"in MPI wait until it exits", rank, leftTimeout)
		}
	})
}

// state returns how far a rank has come; nil: it has not called MPI_Init.
func (m *mpi) state(rank int) *spec.RankMPI {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.states[rank]; s != nil {
		copied := *s
		return &copied
	}
	return nil
}

// anyBegan reports whether any rank of this node has called MPI_Init.
func (m *mpi) anyBegan() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.states) > 0
}

func (m *mpi) Abort(p world.Proc, code int, message string) {
	m.send(wire.MPIEvent{Rank: m.rank(p), Abort: &spec.MPIAbort{Code: code, Message: message}})
}

func (m *mpi) Failed(p world.Proc, why string) {
	m.send(wire.MPIEvent{Rank: m.rank(p), Abort: &spec.MPIAbort{Why: why}})
}

func (m *mpi) PID(p world.Proc) int {
	if r := m.job.rank(m.rank(p)); r != nil {
		return int(r.pid.Load())
	}
	return 0
}

func (m *mpi) Signal(p world.Proc, number int) {
	if rank := m.rank(p); m.PID(p) != 0 {
		_ = m.job.group.SignalProcess(rank, syscall.Signal(number)) // it may have exited
	}
}

func (m *mpi) Stuck(waiting []world.Proc, missing world.Proc) {
	stuck := &spec.MPIStuck{Missing: m.rank(missing)}
	stuck.Initialized = m.state(stuck.Missing) != nil
	for _, p := range waiting {
		stuck.Waiting = append(stuck.Waiting, m.rank(p))
	}
	m.job.endings.flush() // perhaps with the exit of the missing rank
	m.send(wire.MPIEvent{Stuck: stuck})
}

func (m *mpi) Broken(p world.Proc, err error) {
	if p.Rank == world.AllRanks {
		m.job.agent.notice("refused a process that connected to PMI_PORT: %v", err)
		return
	}
	var second *world.SecondError
	if errors.As(err, &second) {
		m.job.agent.notice("gorun stops serving PMI to rank %d, since both of its processes would wait for ever: %v",
			m.rank(p), err)
		return
	}
	m.job.agent.notice("rank %d broke the MPI launch protocol, so gorun stops serving it: %v",
		m.rank(p), err)
}

// Say shows a text as if the rank had written it to standard error.
func (m *mpi) Say(p world.Proc, text string) {
	if text == "" {
		return
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if rank := m.rank(p); rank >= 0 {
		m.job.forward(rank, output.Stderr, []byte(text))
	}
}

func (m *mpi) send(e wire.MPIEvent) {
	e.At = time.Now()
	if m.job.reports.begin() {
		defer m.job.reports.end()
		_ = m.job.agent.link.Send(&e) // the head may be gone
	}
}

// Spawn sends a request to the head, which plans the new world.
func (m *mpi) Spawn(s world.Spawn, done func(name string, err error)) { m.job.requestSpawn(s, done) }

// forget removes worlds whose ranks have ended on all nodes.
func (m *mpi) forget(names []string) {
	if len(names) == 0 {
		return
	}
	m.serversMu.Lock()
	defer m.serversMu.Unlock()
	m.mu.Lock()
	maps.DeleteFunc(m.worlds, func(name string, _ *world.World) bool { return slices.Contains(names, name) })
	maps.DeleteFunc(m.leftCount, func(p world.Proc, _ int) bool { return slices.Contains(names, p.World) })
	m.mu.Unlock()
	for _, s := range m.existingServers() {
		for _, name := range names {
			s.Forget(name)
		}
	}
}
