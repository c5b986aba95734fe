package agent

import (
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/torchwatch"
	"gorun/launcher/internal/wire"
)

const (
	killTimeout  = 2 * time.Second       // of a sweep, while new processes keep appearing
	passOnDelay  = 50 * time.Millisecond // for more ranks to end before their helpers are looked for
	collectTime  = 2 * time.Second       // for a collection of evidence, which a dead file system may block
	eofTimeout   = 20 * time.Millisecond // for streams to close if no orphan holds them
	reapPeriod   = 10 * time.Second      // between looks for adopted zombies
	settleDelay  = 10 * time.Millisecond // before set-up that instant jobs do without
	lastingDelay = 40 * time.Millisecond // after settleDelay, before Config.Settled
)

// finish ends orphans and reports that nothing is left.
func (j *job) finish(grace time.Duration) {
	j.ended.Do(func() { j.end(grace) })
}

// abandon ends the job because the head is lost, unless finish was called. Ranks have the grace period to end.
func (j *job) abandon(grace time.Duration) {
	j.ended.Do(func() {
		j.display.hurryUp(grace)
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
	var orphans []process.Proc
	if !j.open.await(eofTimeout) || !j.removeCgroup() || !j.agent.cfg.Subreaper {
		orphans = terminate(j.target(), grace) // ranks are zombies, so their sessions cannot be reused
	}
	j.mpi.close()
	j.collecting.closeWithin(collectTime)
	dismissed := make(chan struct{})
	go func() {
		defer close(dismissed)
		j.guard.dismiss()
	}()
	j.stdin.close()
	reaped := process.Now()
	_ = j.group.Close() // orphans has the ranks that SIGKILL did not end
	<-dismissed
	if j.agent.cfg.Subreaper && process.HasChildren() || !j.removeCgroup() {
		orphans = j.sweepReaped(grace, reaped)
	}
	j.closeCgroup()
	j.privateDir.close()
	j.oom.Close()
	j.closeLogs()
	j.display.close()
	j.reports.close()
	j.endings.flush()
	j.closePlane()
	j.cleanedUp.Store(true)
	_ = j.agent.link.Send(&wire.CleanedUp{Orphans: procNames(orphans)})
}

// sweepReaped handles an unlikely case: all streams are closed and all ranks reaped, but this process has adopted
// children, or the cgroup has processes.
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

// terminate sends SIGTERM, waits for the grace period, and sends SIGKILL. It returns the processes that are left.
func terminate(t process.Target, grace time.Duration) []process.Proc {
	if grace > 0 && t.Terminate(grace) {
		return nil
	}
	return t.KillAll(killTimeout)
}

// target returns the job's processes on this node. All ranks must have been started.
func (j *job) target() process.Target {
	t := j.sessions()
	if j.agent.cfg.Subreaper {
		t.Known = j.knownChildren()
	}
	return t
}

// sessions returns the job's processes as far as sessions, markers and the cgroup show.
func (j *job) sessions() process.Target {
	t := process.Target{ID: j.start.JobID, Cgroup: j.cgroup.Load(), Since: j.agent.since}
	for _, r := range j.roster.Load().ranks {
		if pid := int(r.pid.Load()); pid != 0 {
			t.Sessions = append(t.Sessions, process.Session{SID: pid, Since: j.since})
		}
	}
	return t
}

// knownChildren returns a function that reports whether a child was started by this process and not adopted: a
// rank, the guard, or a child of package child.
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

// reapOrphans periodically reaps adopted zombies.
func (j *job) reapOrphans() {
	if !j.agent.cfg.Subreaper {
		return
	}
	j.timers.after(reapPeriod, func() {
		process.ReapOrphans(j.knownChildren())
		j.reapOrphans()
	})
}

// torchHintDelay is the time for PyTorch ranks to connect to the store before a hint: imports take many seconds, on a
// busy host or from a slow file system even minutes.
const torchHintDelay = 20 * time.Second

// watchTorch looks for PyTorch ranks that connect to another port than the store's, less and less often, until one has
// come to the store or a hint was given.
func (j *job) watchTorch() {
	if j.start.TorchHint && j.store != nil {
		j.checkTorch(torchHintDelay)
	}
}

func (j *job) checkTorch(delay time.Duration) {
	server := j.store
	j.timers.after(delay, func() {
		if server.Clients() > 0 {
			return
		}
		if f, ok := torchwatch.Check(j.rankPIDs(), []uint16{server.Addr().Port()}); !ok {
			j.checkTorch(2 * delay)
		} else if server.Clients() == 0 {
			j.agent.notice("%s", f.Notice())
		}
	})
}

func (j *job) rankPIDs() (pids []int) {
	for _, r := range j.pids(j.rows()) {
		pids = append(pids, r.PID)
	}
	return pids
}

// scheduleLateSetup schedules what ranks do not need in their first milliseconds, such as the baseline of out-of-memory
// kills.
func (j *job) scheduleLateSetup() {
	j.timers.after(settleDelay, func() {
		<-j.guard.started
		j.timers.unlessOver(func() {
			j.prepareErrorFiles()
			j.oom.Begin()
			j.counters.Store(new(errorCounters()))
			j.tidyCgroups()
		})
		if j.agent.cfg.Settled != nil {
			j.timers.after(lastingDelay, func() {
				j.timers.unlessOver(func() { j.agent.cfg.Settled(j.guard.AddPath) })
			})
		}
	})
}
