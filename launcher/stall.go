package launcher

import (
	"fmt"
	"slices"

	"gorun/internal/printable"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// onStalled adds ranks of other nodes to what node 0's store has seen.
func (h *head) onStalled(n *node, s wire.Stalled) error {
	if n.number != h.plan.Load().Ranks[0].Node {
		return wire.Violation("it reported on a store that another node has")
	}
	stall := &job.Stall{Stall: s.Stall}
	stall.At = h.localTime(n, s.At)
	for i, w := range stall.Waiting {
		stall.Waiting[i] = spec.StoreWait{Rank: h.waitingRank(w), Keys: printables(w.Keys), More: max(0, w.More)}
	}
	for i := range stall.Missing {
		stall.Missing[i].State = printable.Text(stall.Missing[i].State)
	}
	for _, other := range h.nodes {
		if other != n {
			stall.Missing = append(stall.Missing, h.absentRanks(other, stall)...)
		}
	}
	stall.NCCL = h.rasFindings(s.RAS)
	h.stall.Store(stall)
	h.settings.notify(stall.String())
	for _, line := range stall.NCCL {
		h.settings.notify("NCCL: " + line)
	}
	return nil
}

// waitingRank returns the rank that waits, or -1. The agents of two nodes on one host know only
// their own ranks.
func (h *head) waitingRank(w spec.StoreWait) int {
	if w.Rank >= 0 && w.Rank < len(h.plan.Load().Ranks) {
		return w.Rank
	}
	return h.rankAt(w.Peer, w.PID)
}

// absentRanks returns a node's ranks that do not wait at the store.
func (h *head) absentRanks(n *node, stall *job.Stall) (list []spec.Absence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rank := range h.plan.Load().Nodes[n.number].Ranks {
		if slices.ContainsFunc(stall.Waiting, func(w spec.StoreWait) bool { return w.Rank == rank }) {
			continue
		}
		a := spec.Absence{Rank: rank, PID: h.sup.PID(rank), State: "on " + n.name, CPU: -1}
		if exit, ended := h.sup.Exit(rank); ended {
			a.State = fmt.Sprintf("ended on %s", n.name)
			if exit.Signal == 0 {
				a.State += fmt.Sprintf(" with exit code %d", exit.Code)
			}
		}
		list = append(list, a)
	}
	return list
}
