package launcher

import (
	"slices"

	"gorun/launcher/internal/wire"
)

// warm has the job's nodes import modules for the ranks of a later attempt, also those without ranks.
func (h *head) warm() {
	p := h.plan.Load()
	if h.spec.WarmImports == nil || p.Apps[0].Python() == 0 {
		return
	}
	for _, n := range h.members {
		if n.joined || n.warmed.Swap(true) { // a node with a command line of its own does so by itself
			continue
		}
		own := max(0, slices.Index(h.nodes, n)) // a spare is to be as node 0
		_ = n.link.Send(&wire.Warm{
			App: p.AppsOf(own)[0], Imports: h.spec.WarmImports,
			Environ: slices.Concat(entries(p.CommonOf(own)), entries(p.Ranks[p.Nodes[own].Ranks[0]].Env)),
		})
	}
}
