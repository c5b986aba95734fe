package agent

import (
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/torchwatch"
	"gorun/launcher/internal/wire"
)

// Limits of the end of a job.
const (
	killTimeout  = 2 * time.Second       // how long a sweep chases processes that keep appearing
	eofTimeout   = 20 * time.Millisecond // how long streams may stay open that nobody of the job holds
	reapPeriod   = 10 * time.Second      // how often adopted zombies are looked for
	settleDelay  = 10 * time.Millisecond // from when on a job needs what an instant one is spared
	lastingDelay = 40 * time.Millisecond // after which, again, it is worth knowing of
)

// finish ends what the ranks left behind, then tells the head that nothing is
// left.
func (j *job) finish(grace time.Duration) {
	j.ended.Do(func() { j.end(grace) })
}

// abandon ends the job because the head is gone, unless it has ended in order. Ranks get
// the grace to end in order.
func (j *job) abandon(grace time.Duration) {
	j.ended.Do(func() {
		if grace <= 0 {
			j.kill()
		}
		j.end(grace)
	})
}

func (j *job) end(grace time.Duration) {
	<-j.startDone
	j.startGate.Lock()
	j.startGate.closed = true
	j.startGate.Unlock()
	j.timers.stop()
	j.watchdog.close()
	var left []process.Proc
	if !j.streamsClosed() || !j.removeCgroup() || !j.agent.cfg.Subreaper {
		left = j.sweep(grace)
	}
	j.mpi.close()
	dismissed := make(chan struct{})
	go func() {
		defer close(dismissed)
		j.guard.dismiss()
	}()
	j.stdin.close()
	reaped := process.Now()
	if j.group != nil {
		_ = j.group.Close() // it names ranks that SIGKILL did not end; so does left
	}
	<-dismissed
	if j.agent.cfg.Subreaper && process.HasChildren() || !j.removeCgroup() {
		left = j.sweepReaped(grace, reaped)
	}
	j.closeCgroup()
	j.privateDir.close()
	j.oom.Close()
	j.closeLogs()
	j.display.close()
	j.reports.close()
	j.endings.flush()
	j.closePlane()
	j.gone.Store(true)
	_ = j.agent.link.Send(&wire.CleanedUp{Orphans: procNames(left)})
}

// quiet waits a moment for the end of all streams. Nobody of a job that is over
// holds one open, except what its ranks left behind.
func (j *job) streamsClosed() bool {
	return j.open.await(eofTimeout)
}

// sweep ends every process that still belongs to the job: SIGTERM, grace,
// SIGKILL. The ranks are zombies meanwhile, so that their sessions stay theirs.
func (j *job) sweep(grace time.Duration) []process.Proc {
	return terminate(j.target(), grace)
}

// sweepReaped is for the last, unlikely case: all streams are closed and all
// ranks reaped, and yet this process has children, which it has adopted, or the
// cgroup has processes.
func (j *job) sweepReaped(grace time.Duration, reaped process.Ticks) []process.Proc {
	t := j.target()
	for i := range t.Sessions {
		t.Sessions[i].Until = reaped
	}
	if t.Known != nil {
		defer process.ReapOrphans(t.Known)
	}
	return terminate(t, grace)
}

func terminate(t process.Target, grace time.Duration) []process.Proc {
	if grace > 0 && t.Signal(syscall.SIGTERM) > 0 && t.WaitGone(grace) {
		return nil
	}
	return t.KillAll(killTimeout)
}

// target is what belongs to the job on this node, once all ranks are started.
func (j *job) target() process.Target {
	t := j.sessions()
	if j.agent.cfg.Subreaper {
		t.Known = j.knownChildren()
	}
	return t
}

// sessions is what can be told by a session or the marker.
func (j *job) sessions() process.Target {
	t := process.Target{ID: j.start.JobID, Cgroup: j.cgroup, Since: j.agent.began}
	for _, r := range j.roster.Load().ranks {
		if pid := int(r.pid.Load()); pid != 0 {
			t.Sessions = append(t.Sessions, process.Session{SID: pid, Since: j.began})
		}
	}
	return t
}

// known tells this process's own children from those that it has adopted: it starts ranks,
// their guard, and what package child knows of.
func (j *job) knownChildren() func(pid int) bool {
	own := map[int]bool{j.guard.pid(): true}
	for _, r := range j.roster.Load().ranks {
		own[int(r.pid.Load())] = true
	}
	return func(pid int) bool { return own[pid] || child.Is(pid) }
}

func procNames(left []process.Proc) (lines []string) {
	for _, p := range left {
		lines = append(lines, p.String())
	}
	return lines
}

// reapOrphans takes the zombies that ranks' orphans leave in a long job.
func (j *job) reapOrphans() {
	if !j.agent.cfg.Subreaper {
		return
	}
	j.timers.after(reapPeriod, func() {
		process.ReapOrphans(j.knownChildren())
		j.reapOrphans()
	})
}

// torchPatience is how long PyTorch ranks have to come to the store before a
// hint is due: they import for many seconds on a busy host.
const torchHintDelay = 20 * time.Second

// watchTorch looks once for PyTorch ranks that wait at another port than the
// store's.
func (j *job) watchTorch() {
	server := j.agent.store.server
	if !j.start.TorchHint || server == nil {
		return
	}
	j.timers.after(torchHintDelay, func() {
		if server.Clients() > 0 {
			return
		}
		if f, ok := torchwatch.Check(j.rankPIDs(), []uint16{server.Addr().Port()}); ok && server.Clients() == 0 {
			j.agent.notice("%s", f.Hint())
		}
	})
}

func (j *job) rankPIDs() (pids []int) {
	for _, r := range j.pids(j.rows()) {
		pids = append(pids, r.PID)
	}
	return pids
}

// settle arranges for what no rank needs in its first milliseconds: the place for
// its error file, and how often the kernel had killed for lack of memory.
func (j *job) scheduleLateSetup() {
	j.timers.after(settleDelay, func() {
		<-j.guard.started
		j.timers.unlessOver(func() {
			if err := j.makePrivateDir(); err != nil {
				j.agent.notice("no place for ranks' error files, so none are read: %v", err)
			}
			j.oom.Begin()
			j.tidyCgroups()
		})
		if j.agent.cfg.Settled != nil {
			j.timers.after(lastingDelay, func() {
				j.timers.unlessOver(func() { j.agent.cfg.Settled(j.guard.AddPath) })
			})
		}
	})
}
