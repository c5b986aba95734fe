package agent

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/torchwatch"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/tcpstore"
)

// stall watches whether those who meet in the store come further.
type stall struct {
	job    *running
	server *tcpstore.Server
	limit  time.Duration

	progress int64
	since    time.Time // of the last progress, or with nobody waiting
}

// watchStore reports, once, that ranks wait in the store for longer than the user
// wants to wait without a word.
func (j *running) watchStore() {
	server, limit := j.agent.store.server, j.start.StoreReport
	if server == nil || limit <= 0 {
		return
	}
	w := &stall{job: j, server: server, limit: limit, since: time.Now()}
	w.again()
}

// looks is how often the store is looked at within the limit.
const looks = 4

func (w *stall) again() { w.job.timers.after(w.limit/looks, w.look) }

func (w *stall) look() {
	now, s := time.Now(), w.server.Snapshot()
	if s.Waiting == 0 || s.Progress != w.progress {
		w.progress, w.since = s.Progress, now
	}
	waited := now.Sub(w.since)
	if waited < w.limit {
		w.again()
		return
	}
	before, err := process.Usage(w.job.rankPIDs())
	if err != nil {
		before = nil
	}
	w.job.timers.after(usageTime, func() { w.report(waited+time.Since(now), before, now) })
}

// usageTime is how long the ranks' use of CPUs is measured.
const usageTime = time.Second

// report tells who waits and what the others do, unless that is over by now.
func (w *stall) report(waited time.Duration, before map[int]process.Ticks, since time.Time) {
	if s := w.server.Snapshot(); s.Progress != w.progress || s.Waiting == 0 {
		w.again()
		return
	}
	m := wire.Stalled{Waited: waited, At: time.Now(), Waiting: w.job.storeWaits(w.server)}
	now, err := process.Usage(w.job.rankPIDs())
	elapsed := time.Since(since)
	for _, rank := range w.absent(m.Waiting) {
		if err == nil && before != nil && rank.CPU >= 0 {
			rank.CPU = percent(now[rank.PID]-before[rank.PID], elapsed)
		}
		m.Absent = append(m.Absent, rank)
	}
	_ = w.job.agent.link.Send(&m) // the head may be gone
}

func percent(used process.Ticks, elapsed time.Duration) int {
	return int(used.Duration() * 100 / max(elapsed, 1))
}

// storeWaits are the connections that wait in the store, by rank.
func (j *running) storeWaits(server *tcpstore.Server) (list []wire.StoreWait) {
	waits := server.Waits()
	owner := j.owners(server, waits)
	for _, wait := range waits {
		list = append(list, wire.StoreWait{Rank: owner(wait), Keys: wait.Keys, Missing: wait.Missing})
	}
	slices.SortStableFunc(list, func(a, b wire.StoreWait) int { return a.Rank - b.Rank })
	return list
}

// owners tells the rank of a connection, -1 for none: by the process id that the
// client sent, or by who holds the socket at the other end.
func (j *running) owners(server *tcpstore.Server, waits []tcpstore.Wait) func(tcpstore.Wait) int {
	rankOf := map[int]int{}
	for _, r := range j.pids() {
		rankOf[r.PID] = r.Rank
	}
	var holders map[uint16]int
	if slices.ContainsFunc(waits, func(wait tcpstore.Wait) bool { return wait.PID == 0 }) {
		holders = torchwatch.Clients(j.rankPIDs(), server.Addr().Port())
	}
	return func(wait tcpstore.Wait) int {
		leader := holders[wait.Peer.Port()]
		if wait.PID != 0 {
			leader, _ = unix.Getsid(wait.PID)
		}
		if rank, ok := rankOf[leader]; ok {
			return rank
		}
		return -1
	}
}

// absent are the ranks that are not among those that wait.
func (w *stall) absent(waiting []wire.StoreWait) (list []wire.AbsentRank) {
	for _, row := range w.job.start.Ranks {
		if !slices.ContainsFunc(waiting, func(s wire.StoreWait) bool { return s.Rank == row.Rank }) {
			list = append(list, w.job.absent(row.Rank))
		}
	}
	return list
}

// absent says what a rank does; its CPU is -1 where there is none to measure.
func (j *running) absent(rank int) wire.AbsentRank {
	a := wire.AbsentRank{Rank: rank, PID: int(j.ranks[rank].pid.Load()), CPU: -1}
	if end := j.ranks[rank].end.Load(); end != nil {
		a.Standing = ending(end)
		return a
	}
	p, err := process.Describe(a.PID)
	if err != nil {
		a.Standing = "not started"
		return a
	}
	a.Standing, a.CPU = p.Standing(), 0
	return a
}

func ending(e *wire.RankExit) string {
	if e.Signal != 0 {
		return "ended by " + unix.SignalName(e.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", e.Code)
}
