package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// chosen returns the facts of the spec's nodes: the first of its hosts with --nnodes.
func (s *Spec) chosen(facts []Facts) ([]Facts, error) {
	if err := s.checkFacts(facts); err != nil {
		return nil, err
	}
	switch n := s.NumNodes; {
	case n == 0 || len(s.Hosts) == 0:
		return facts[:s.OwnNodes(len(facts))], nil
	case n > len(facts):
		return nil, fmt.Errorf("--nnodes %d: the job has %s%s", n, plural(len(facts), "host"), inParentheses(s.HostsFrom))
	default:
		return facts[:n], nil
	}
}

// OwnNodes is how many of a number of hosts are the job's own. With MinNodes the others are spares.
func (s *Spec) OwnNodes(hosts int) int { return min(cmp.Or(s.NumNodes, hosts), hosts) }

// spares returns the names of the hosts that are kept for lost ones.
func (s *Spec) spares(facts []Facts) (names []string) {
	if s.MinNodes > 0 {
		for _, f := range facts[s.OwnNodes(len(facts)):] {
			names = append(names, f.Host)
		}
	}
	return names
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// CountSlots sets the slots of hosts that have one for each core. facts are those of the spec's hosts, in their order.
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

// layout places the ranks on nodes. It returns the facts of the spec's nodes, with the GPUs that their own variables
// hide.
func (s *Spec) layout(facts []Facts) ([]Facts, placement.Layout, error) {
	facts, err := s.chosen(facts)
	if err != nil {
		return nil, placement.Layout{}, err
	}
	facts = slices.Clone(facts)
	for i := range facts {
		if f := &facts[i]; s.hasOwnGPUs(f) {
			f.Machine.Hidden = new(placement.VisibilityOf(s.gpuEnviron(f)))
		}
	}
	layout, err := s.place(facts)
	return facts, layout, err
}

func (s *Spec) place(facts []Facts) (placement.Layout, error) {
	if slices.ContainsFunc(facts, func(f Facts) bool { return f.Task != nil }) {
		return s.placeTasks(facts)
	}
	req, machines := s.Request(), make([]placement.Machine, len(facts))
	joined := slices.ContainsFunc(facts, func(f Facts) bool { return f.Ranks > 0 })
	if joined { // each node has its own number of ranks
		req.PerNode, req.Slots, req.SlotsFrom = placement.PerNode{}, nil, "from each node's command line"
		if s.PerNode.Kind == CountDevice && s.Join == nil {
			req.SlotsFrom = s.PerNode.From
		}
	}
	for i, f := range facts {
		machines[i] = f.Machine
		req.Hosts = append(req.Hosts, f.Host)
		if joined {
			req.Slots = append(req.Slots, f.Ranks)
		}
	}
	if len(s.Apps) > 1 && s.placesApps() && !joined {
		return s.placeApps(machines, req.Hosts)
	}
	return placement.Map(req, machines)
}

// HostOfRank0 returns the index of the host of rank 0, where ranks meet: the first one unless there is a rank file.
func HostOfRank0(spec *Spec, facts []Facts) (int, error) {
	if spec.Place.RankFile == nil {
		_, err := spec.chosen(facts)
		return 0, err
	}
	_, layout, err := spec.layout(facts)
	if err != nil {
		return 0, err
	}
	return layout.Ranks[0].Node, nil
}

// nodesOf makes a node of each host that has ranks, and renumbers the layout by nodes.
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
			Remote: f.Remote, Endpoint: f.Endpoint, Role: f.Role, Machine: f.Machine,
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

// apps returns how the first node starts the programs, and gives nodes that do so differently their own.
func (b *builder) apps() []AppRun {
	first := b.programsOf(0)
	all := b.runs(first, b.appOf)
	for node := 1; node < len(b.facts); node++ {
		programs := b.programsOf(node)
		if slices.EqualFunc(first, programs, sameStart) {
			continue
		}
		var apps []int
		for _, rank := range b.plan.Nodes[node].Ranks {
			apps = append(apps, b.appOf[rank])
		}
		b.plan.Nodes[node].Apps = b.runs(programs, apps)
	}
	return all
}

// runs counts the ranks of each program; apps has the program of each.
func (b *builder) runs(programs []Program, apps []int) []AppRun {
	runs := make([]AppRun, len(b.spec.Apps))
	for i, p := range programs {
		dir := cmp.Or(b.spec.Apps[i].Dir, b.spec.Dir)
		runs[i] = AppRun{Path: p.Path, Argv: p.Argv, Dir: dir, Kind: p.Kind, Build: p.Build}
	}
	for _, app := range apps {
		runs[app].NumRanks++
	}
	return runs
}

// programsOf returns the programs as a node starts them. Those without ranks there are as on the first node with some.
func (b *builder) programsOf(node int) []Program {
	if !b.spec.placesApps() {
		return b.facts[node].Programs
	}
	programs := slices.Clone(b.facts[node].Programs)
	for i := range programs {
		app := &b.spec.Apps[i]
		if app.RunsOn(&b.facts[node]) {
			continue
		}
		if n := slices.IndexFunc(b.facts, func(f Facts) bool { return app.RunsOn(&f) }); n >= 0 {
			programs[i] = b.facts[n].Programs[i]
			programs[i].Build = false // nodes without ranks need no build
		}
	}
	return programs
}

func sameStart(a, b Program) bool {
	return a.Path == b.Path && a.Kind == b.Kind && a.Build == b.Build && slices.Equal(a.Argv, b.Argv)
}

// checkKinds refuses a program of different kinds on different hosts: most likely one of them has an old copy.
func (b *builder) checkKinds() error {
	for i, app := range b.spec.Apps {
		var kinds []string
		names := make(map[string][]string)
		for _, f := range b.facts {
			if !app.RunsOn(&f) {
				continue
			}
			kind := f.Programs[i].Kind
			if names[kind] == nil {
				kinds = append(kinds, kind)
			}
			names[kind] = append(names[kind], f.Host)
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

// HostRanges returns names of hosts as a short list of ranges, node[1-3].
func HostRanges(names []string) string {
	const most = 100
	text := hosts.NodeList(names)
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndexByte(text[:most], ',')
	return text[:max(cut, 0)] + fmt.Sprintf(",… (%s)", plural(len(names), "host"))
}
