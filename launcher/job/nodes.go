package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// chosen are the facts of the nodes that the wish wants: the first so many of its
// hosts with --nnodes.
func (s *Spec) chosen(facts []Facts) ([]Facts, error) {
	if err := s.checkFacts(facts); err != nil {
		return nil, err
	}
	switch n := s.NumNodes; {
	case n == 0 || n == len(facts) || len(s.Hosts) == 0:
		return facts, nil
	case n > len(facts):
		return nil, fmt.Errorf("--nnodes %d: there are %s%s", n, plural(len(facts), "host"), inParentheses(s.HostsFrom))
	default:
		return facts[:n], nil
	}
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// CountSlots fills in the slots of hosts that have as many as cores. Facts are those of the
// wish's hosts, in their order.
func (s *Spec) CountSlots(facts []Facts) {
	s.Hosts = slices.Clone(s.Hosts)
	for i := range s.Hosts[:min(len(s.Hosts), len(facts))] {
		if h := &s.Hosts[i]; h.CoreSlots {
			h.Slots = facts[i].Machine.Slots()
			if h.MaxSlots > 0 {
				h.Slots = min(h.Slots, h.MaxSlots)
			}
		}
	}
}

// layout has the ranks placed.
func (s *Spec) layout(facts []Facts) (placement.Layout, error) {
	if slices.ContainsFunc(facts, func(f Facts) bool { return f.Task != nil }) {
		return s.seated(facts)
	}
	req, machines := s.Request(), make([]placement.Machine, len(facts))
	own := slices.ContainsFunc(facts, func(f Facts) bool { return f.Ranks > 0 })
	if own { // nodes that were started by hand, each with its number
		req.PerNode, req.Slots, req.SlotsFrom = placement.PerNode{}, nil, "as each node's own command line says"
		if s.PerNode.Kind == CountDevice && s.Join == nil {
			req.SlotsFrom = s.PerNode.From
		}
	}
	for i, f := range facts {
		machines[i] = f.Machine
		req.Hosts = append(req.Hosts, f.Host)
		if own {
			req.Slots = append(req.Slots, f.Ranks)
		}
	}
	if len(s.Apps) > 1 && s.ownPlaces() && !own {
		return s.perApp(machines, req.Hosts)
	}
	return placement.Map(req, machines)
}

// HostOfRank0 is the number of the host on which rank 0 will be, where ranks meet:
// the first but for rank files.
func HostOfRank0(spec *Spec, facts []Facts) (int, error) {
	facts, err := spec.chosen(facts)
	if err != nil || spec.Place.RankFile == nil {
		return 0, err
	}
	layout, err := spec.layout(spec.hidden(facts))
	if err != nil {
		return 0, err
	}
	return layout.Ranks[0].Node, nil
}

// nodesOf makes a node of each host that has ranks. Where others have none, the layout
// counts the nodes alone from here on.
func nodesOf(facts []Facts, layout *placement.Layout) (used []Facts, nodes []Node, unused []string) {
	number := make([]int, len(facts))
	var perNode []int
	for i, f := range facts {
		if layout.PerNode[i] == 0 && len(facts) > 1 {
			unused = append(unused, f.Host)
			continue
		}
		number[i] = len(used)
		used = append(used, f)
		perNode = append(perNode, layout.PerNode[i])
		nodes = append(nodes, Node{
			Name: f.Host, CPUs: f.Machine.CPUs.String(), Fact: i, Ranks: make([]int, 0, layout.PerNode[i]),
			Remote: f.Remote, Address: f.Address, Interface: f.Interface, Role: f.Role,
		})
	}
	layout.PerNode = perNode
	for rank := range layout.Ranks {
		r := &layout.Ranks[rank]
		r.Node = number[r.Node]
		nodes[r.Node].Ranks = append(nodes[r.Node].Ranks, rank)
	}
	return used, nodes, unused
}

// apps decides how the programs are started; on most nodes as on the first, others have their own.
func (b *builder) apps() []AppRun {
	first, all := b.programsOf(0), b.appsOf(0)
	for _, app := range b.appOf {
		all[app].NumRanks++
	}
	for node := 1; node < len(b.facts); node++ {
		if sameStart(first, b.programsOf(node)) {
			continue
		}
		own := b.appsOf(node)
		for _, rank := range b.plan.Nodes[node].Ranks {
			own[b.appOf[rank]].NumRanks++
		}
		b.plan.Nodes[node].Apps = own
	}
	return all
}

func (b *builder) appsOf(node int) []AppRun {
	runs := make([]AppRun, len(b.spec.Apps))
	for i, p := range b.programsOf(node) {
		dir := cmp.Or(b.spec.Apps[i].Dir, b.spec.Dir)
		runs[i] = AppRun{Path: p.Path, Argv: p.Argv, Dir: dir, Kind: p.Kind, Build: p.Build}
	}
	return runs
}

// programsOf are the programs as a node starts them; those that do not run there are as on
// the first node that has them.
func (b *builder) programsOf(node int) []Program {
	if !b.spec.ownPlaces() {
		return b.facts[node].Programs
	}
	programs := slices.Clone(b.facts[node].Programs)
	for i := range programs {
		for n := 0; !b.spec.Apps[i].RunsOn(&b.facts[node]) && n < len(b.facts); n++ {
			if b.spec.Apps[i].RunsOn(&b.facts[n]) {
				programs[i] = b.facts[n].Programs[i]
				programs[i].Build = false // there, where nothing runs that has to be built
				break
			}
		}
	}
	return programs
}

// sameStart reports whether programs are started alike.
func sameStart(a, b []Program) bool {
	return slices.EqualFunc(a, b, func(a, b Program) bool {
		return a.Path == b.Path && a.Kind == b.Kind && a.Build == b.Build && slices.Equal(a.Argv, b.Argv)
	})
}

// sameKinds refuses a program that is one thing on some hosts and another on others:
// most likely one of them has an old copy.
func (b *builder) sameKinds() error {
	for i, app := range b.spec.Apps {
		var kinds []string
		names := make(map[string][]string)
		for node, f := range b.facts {
			if !app.RunsOn(&f) {
				continue
			}
			kind := f.Programs[i].Kind
			if _, known := names[kind]; !known {
				kinds = append(kinds, kind)
			}
			names[kind] = append(names[kind], b.plan.Nodes[node].Name)
		}
		if len(kinds) < 2 {
			continue
		}
		for k, kind := range kinds {
			kinds[k] = fmt.Sprintf("%s on %s", kind, HostRanges(names[kind]))
		}
		return fmt.Errorf("%s is not the same everywhere: %s; --copy sends this host's", app.Program,
			strings.Join(kinds, ", "))
	}
	return nil
}

// HostRanges writes names of hosts for a line of a message or a table, node[1-3]; what
// is too long is cut.
func HostRanges(names []string) string {
	const most = 100
	text := hosts.Fold(names)
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndexByte(text[:most], ',')
	return text[:max(cut, 0)] + fmt.Sprintf(",… (%s)", plural(len(names), "host"))
}
