package launcher

import (
	"net/netip"
	"slices"

	"gorun/launcher/internal/ras"
)

// rasFindings say what is remarkable in what NCCL answered on nodes.
func (h *head) rasFindings(answers ...[]byte) []string {
	all, known := h.rasStatus(answers)
	if !known {
		return nil
	}
	return printables(all.Findings(h.rasView()))
}

// rasStatus joins what NCCL answered on nodes; known is false where it did on none.
func (h *head) rasStatus(answers [][]byte) (all ras.Status, known bool) {
	var list []ras.Status
	for _, text := range answers {
		if s, err := ras.Decode(text); err == nil { // else it is none, or another host's invention
			list = append(list, s)
		}
	}
	all = ras.Merge(list)
	all.AssignWorldRanks(h.rankOf)
	return all, len(list) > 0
}

// rasView names ranks as the job does.
func (h *head) rasView() ras.View {
	p := h.plan.Load()
	view := ras.View{World: len(p.Ranks)}
	if len(h.nodes) > 1 {
		view.Host = func(rank int) string {
			if rank < 0 || rank >= len(p.Ranks) {
				return ""
			}
			return p.Nodes[p.Ranks[rank].Node].Name
		}
	}
	return view
}

// rankOf tells the rank of a process by its node's address and its number, -1 if it is none that is known.
func (h *head) rankOf(r *ras.Rank) int {
	addr, err := netip.ParseAddr(r.Host)
	if err != nil {
		return -1
	}
	return h.rankAt(addr.Unmap().String(), r.PID)
}

// rankAt is the rank with a process on a node with an address ("": on any), -1 if there is none.
func (h *head) rankAt(addr string, pid int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		if addr != "" && !n.hasAddress(addr) {
			continue
		}
		ranks := h.plan.Load().Nodes[n.number].Ranks
		if i := slices.IndexFunc(ranks, func(rank int) bool { return h.sup.PID(rank) == pid }); i >= 0 {
			return ranks[i]
		}
	}
	return -1
}
