package agent

import (
	"slices"
	"time"

	"gorun/launcher/internal/process"
)

// Ranks stay zombies until the job ends, so that a sweep knows their sessions. A program that
// spawns others again and again would run out of processes by that: of a spawned rank that has
// ended, and of whose session nobody is left, nothing is kept.

// reapDelay is how long a spawned rank that has ended waits for company: who is left of its
// session only a look at all of /proc tells.
const reapDelay = 100 * time.Millisecond

// letGo lets go of a rank before long if it was spawned and nothing more comes of it.
func (j *job) reapSoon(id int) {
	if r := j.rank(id); r != nil && r.isOver() && !j.reaping.Swap(true) {
		j.timers.after(reapDelay, j.reapSpawned)
	}
}

// isOver reports whether it is a spawned rank of which nothing more comes.
func (r *rank) isOver() bool { return r.row.Spawned && r.reported.Load() && r.streams.Load() == 0 }

// reapSpawned lets go of spawned ranks that are over. Others, of whose sessions some process
// is left, are looked at again when the next one has ended.
func (j *job) reapSpawned() {
	j.reaping.Store(false)
	var sessions []process.Session
	for _, row := range j.rows() {
		if r := j.rank(row.Rank); r != nil && r.isOver() {
			sessions = append(sessions, process.Session{SID: int(r.pid.Load()), Since: j.began})
		}
	}
	left, err := process.Target{Sessions: sessions, Since: j.began}.Find()
	if err != nil || len(sessions) == 0 {
		return
	}
	empty := map[int]bool{}
	for _, s := range sessions {
		empty[s.SID] = !slices.ContainsFunc(left, func(p process.Proc) bool { return p.SID == s.SID })
	}
	j.reap(empty)
}

// reap lets go of the ranks of sessions in which nobody is left, unless the job ends or is
// being killed: a sweep may have begun that takes the numbers of their sessions for theirs.
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
		if r := j.rank(row.Rank); r.isOver() && empty[int(r.pid.Load())] {
			ids, pids = append(ids, row.Rank), append(pids, int(r.pid.Load()))
		}
	}
	j.guard.RemoveRanks(pids)
	j.group.Reap(ids)
	// until now they are known as children of ours
	j.removeRanks(func(id int, _ *rank) bool { return slices.Contains(ids, id) })
	j.endings.forget(len(ids))
	j.mpi.forgetSessions(ids)
}
