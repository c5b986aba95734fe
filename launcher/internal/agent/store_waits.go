package agent

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/torchwatch"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/tcpstore"
)

// watchStoreWaits reports once that ranks wait in the store without progress for the time of --store-report.
func (j *job) watchStoreWaits() {
	server, limit := j.store, j.start.StoreReport
	if server == nil || limit <= 0 {
		return
	}
	w := &stallDetector{job: j, limit: limit, progress: func() []int64 {
		s := server.Snapshot()
		if s.Waiting == 0 {
			return nil
		}
		return []int64{s.Progress}
	}}
	w.report = func(from, to cpuSample) {
		m := wire.Stalled{Stall: spec.Stall{Waited: spec.Seconds(limit), At: time.Now(), Waiting: j.storeWaits(server)}}
		m.Missing = j.absentRanks(m.Waiting, from, to)
		m.RAS, _ = j.queryRAS(true)                               // most programs have no NCCL
		j.timers.unlessOver(func() { _ = j.agent.link.Send(&m) }) // the head may be gone
	}
	w.watch()
}

// storeWaits returns the connections that wait in the store, ordered by rank.
func (j *job) storeWaits(server *tcpstore.Server) (list []spec.StoreWait) {
	waits := server.Waits()
	owner, local := j.owners(server, waits), probe.LocalAddresses()
	for _, wait := range waits {
		w := spec.StoreWait{Rank: -1, Keys: wait.Keys, More: wait.Missing - len(wait.Keys), PID: wait.PID}
		if peer := wait.Peer.Addr().Unmap(); peer.IsLoopback() || local[peer.WithZone("")] {
			w.Rank = owner(wait)
		} else {
			w.Peer = peer.WithZone("").String()
		}
		list = append(list, w)
	}
	slices.SortStableFunc(list, func(a, b spec.StoreWait) int { return a.Rank - b.Rank })
	return list
}

// owners returns a function that finds the rank of a connection, -1 for none: by the pid that the client sent, or
// by the process that holds the socket at the other end.
func (j *job) owners(server *tcpstore.Server, waits []tcpstore.Wait) func(tcpstore.Wait) int {
	rankOf := map[int]int{}
	for _, r := range j.pids(j.rows()) {
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

// absentRanks returns the ranks that do not wait.
func (j *job) absentRanks(waiting []spec.StoreWait, from, to cpuSample) (list []spec.Absence) {
	for _, row := range j.rows() {
		if !slices.ContainsFunc(waiting, func(s spec.StoreWait) bool { return s.Rank == row.Rank }) {
			a := j.state(row.Rank, from, to)
			list = append(list, spec.Absence{Rank: a.Rank, PID: a.PID, State: a.State, CPU: a.CPU})
		}
	}
	return list
}

// state describes what a rank does. CPU is -1 if it is not running.
func (j *job) state(rank int, from, to cpuSample) spec.Activity {
	a := spec.Activity{Rank: rank, CPU: -1}
	r := j.rank(rank)
	if r == nil { // reaped
		a.State = "ended"
		return a
	}
	a.PID = int(r.pid.Load())
	if end := r.end.Load(); end != nil {
		a.State = exitText(end)
		return a
	}
	p, err := process.Describe(a.PID)
	if err != nil {
		a.State = "not started"
		return a
	}
	a.State, a.CPU = p.StateName(), to.percent(from, a.PID)
	return a
}

func exitText(e *spec.Exit) string {
	if e.Signal != 0 {
		return "ended by " + unix.SignalName(e.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", e.Code)
}
