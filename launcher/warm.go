package launcher

import (
	"slices"

	"gorun/launcher/internal/wire"
)

// warm has a node import modules for the ranks of a later attempt, also one without ranks.
func (h *head) warm(n *node) {
	p := h.plan.Load()
	if h.spec.WarmImports == nil || p.Apps[0].Python() == 0 || n.joined || // it has a command line of its own for that
		n.warmed.Swap(true) {
		return
	}
	own := max(0, slices.Index(h.nodes, n)) // a spare is to be as node 0
	_ = n.link.Send(&wire.Warm{
		App: p.AppsOf(own)[0], Imports: h.spec.WarmImports,
		Environ: slices.Concat(entries(p.CommonOf(own)), entries(p.Ranks[p.Nodes[own].Ranks[0]].Env)),
	})
}
