package launcher

import (
	"net/netip"
	"slices"

	"gorun/launcher/internal/ras"
)

// rasFindings returns findings in the answers of NCCL on several nodes.
func (h *head) rasFindings(answers ...[]byte) []string {
	all, known := h.rasStatus(answers)
	if !known {
		return nil
	}
	return printables(all.Findings(h.rasView()))
}

// rasStatus merges the answers of NCCL on several nodes; known is false if none exists.
func (h *head) rasStatus(answers [][]byte) (all ras.Status, known bool) {
	var list []ras.Status
	for _, text := range answers {
		if s, err := ras.Decode(text); err == nil { // else not NCCL's, or forged
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

// rankOf returns the rank of one of NCCL's processes, or -1.
func (h *head) rankOf(r *ras.Rank) int {
	addr, err := netip.ParseAddr(r.Host)
	if err != nil {
		return -1
	}
	return h.rankAt(addr.Unmap().String(), r.PID)
}

// rankAt returns the rank with a pid on the node with an address ("": on any node), or -1.
func (h *head) rankAt(addr string, pid int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sup.Done() {
		return -1 // nodes get other numbers and addresses for the next attempt
	}
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
