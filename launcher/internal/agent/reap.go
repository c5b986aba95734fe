package agent

import (
	"slices"
	"time"

	"gorun/launcher/internal/process"
)

// Ranks stay zombies until the job ends, so that a sweep can use their sessions. A program that calls
// MPI_Comm_spawn again and again would run out of processes that way; so a spawned rank is reaped once it has ended
// and its session is empty.

// reapDelay batches ended ranks, because finding the members of sessions takes a scan of /proc.
const reapDelay = 100 * time.Millisecond

// reapSoon schedules reaping if a rank is reapable.
func (j *job) reapSoon(id int) {
	if r := j.rank(id); r != nil && r.isReapable() && !j.reapScheduled.Swap(true) {
		j.timers.after(reapDelay, j.reapSpawned)
	}
}

// isReapable reports whether the rank was spawned, and its end and the ends of its streams were reported.
func (r *rank) isReapable() bool { return r.row.Spawned && r.reported.Load() && r.streams.Load() == 0 }

// reapSpawned reaps reapable ranks whose sessions are empty. It checks the others again when the next rank ends.
func (j *job) reapSpawned() {
	j.reapScheduled.Store(false)
	var sessions []process.Session
	for _, row := range j.rows() {
		if r := j.rank(row.Rank); r != nil && r.isReapable() {
			sessions = append(sessions, process.Session{SID: int(r.pid.Load()), Since: j.since})
		}
	}
	left, err := process.Target{Sessions: sessions, Since: j.since}.Find()
	if err != nil || len(sessions) == 0 {
		return
	}
	empty := map[int]bool{}
	for _, s := range sessions {
		empty[s.SID] = !slices.ContainsFunc(left, func(p process.Proc) bool { return p.SID == s.SID })
	}
	j.reap(empty)
}

// reap reaps the ranks of empty sessions, unless the job is ending or being killed: a running sweep relies on their
// session ids.
func (j *job) reap(empty map[int]bool) {
	j.startGate.Lock()
	defer j.startGate.Unlock()
	j.signals.mu.Lock()
	defer j.signals.mu.Unlock()
	if j.startGate.closed || j.signals.killed.Load() {
		return
	}
	var ids, pids []int
	for _, row := range j.rows() {
		if r := j.rank(row.Rank); r.isReapable() && empty[int(r.pid.Load())] {
			ids, pids = append(ids, row.Rank), append(pids, int(r.pid.Load()))
		}
	}
	j.guard.RemoveRanks(pids)
	j.group.Reap(ids)
	j.removeRanks(func(id int, _ *rank) bool { return slices.Contains(ids, id) })
	j.endings.removeRanks(len(ids))
	j.mpi.forgetSessions(ids)
}
