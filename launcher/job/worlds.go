package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gorun/env/plan"
	"gorun/placement"
	"gorun/rendezvous/world"
)

// worlds decides who begins MPI together: all ranks, or with --world=app those of each
// program.
func (b *builder) worlds(facts []Facts) (worlds []world.World) {
	if b.plan.MPI == MPINone {
		return nil
	}
	apps := make([]int, len(b.plan.Apps))
	for app := range apps {
		apps[app] = app
	}
	groups := [][]int{apps}
	if b.spec.WorldPerApp {
		groups = slices.Collect(slices.Chunk(apps, 1))
	}
	h, universe := b.hosts(), b.spec.universe(facts, len(b.plan.Ranks))
	for i, group := range groups {
		w := b.world(h, group)
		w.Name, w.Universe, w.UniverseSet = worldName(b.ids, i), universe, b.spec.Universe != 0
		worlds = append(worlds, w)
	}
	return worlds
}

// oneFamily refuses programs in one MPI_COMM_WORLD of which it is known that they cannot
// talk to each other.
func (b *builder) oneFamily() error {
	if b.spec.WorldPerApp || b.spec.MPI == MPINone {
		return nil
	}
	for _, f := range b.facts {
		first := -1
		for app, p := range f.Programs {
			switch {
			case p.MPI == "":
			case first < 0:
				first = app
			case p.MPI != f.Programs[first].MPI:
				return fmt.Errorf("app %d (%s) is a program of %s's, app %d (%s) of %s's: they cannot share an MPI_COMM_WORLD; "+
					"--world app gives each program a world of its own",
					first, b.spec.Apps[first].Program, f.Programs[first].MPI, app, b.spec.Apps[app].Program, p.MPI)
			}
		}
	}
	return nil
}

// worldName is a name that nobody can guess, as of IDs.World.
func worldName(ids IDs, number int) string {
	if ids.World == AtStart {
		return AtStart
	}
	return fmt.Sprintf("gorun-%s-%d-%d", ids.World, ids.Attempt, number)
}

// mpiHosts are the hosts of a plan's nodes: several nodes may be on one.
type mpiHosts struct {
	names    []string
	ofNode   []int
	nodeRank []int // of each rank, among all of its host
}

// hosts finds which nodes are on one host: by what started them where each is one
// process, else by what the kernels say.
func (b *builder) hosts() mpiHosts {
	h, known, taken := mpiHosts{nodeRank: make([]int, len(b.plan.Ranks))}, make(map[string]int), make(map[string]bool)
	for node, f := range b.facts {
		host, seen := len(h.names), false
		if key := f.hostKey(); key != "" {
			if n, is := known[key]; is {
				host, seen = n, true
			}
			known[key] = host
		}
		h.ofNode = append(h.ofNode, host)
		if !seen {
			name := b.plan.Nodes[node].Name
			for taken[name] { // by these names MPI libraries tell hosts apart
				name += fmt.Sprint("-", host)
			}
			taken[name] = true
			h.names = append(h.names, name)
		}
	}
	ranks := make([]int, len(h.names))
	for rank, r := range b.plan.Ranks {
		host := h.ofNode[r.Node]
		h.nodeRank[rank] = ranks[host]
		ranks[host]++
	}
	return h
}

// hostKey is the same for nodes that are on one host; "" for one that may be anywhere.
func (f *Facts) hostKey() string {
	switch {
	case f.Task != nil:
		return fmt.Sprint("seat ", f.Task.Node)
	case f.Boot != "":
		return "boot " + f.Boot
	}
	return ""
}

// world is that of the ranks of some programs.
func (b *builder) world(h mpiHosts, apps []int) world.World {
	var w world.World
	number := make(map[int]int, len(apps))
	for i, app := range apps {
		run := b.plan.Apps[app]
		number[app], w.Apps = i, append(w.Apps, world.App{NumRanks: run.NumRanks, Argv: run.Argv, Dir: run.Dir})
	}
	w.Ranks = make([]world.Rank, 0, len(b.plan.Ranks))
	where, used, locals := b.localities(), make(map[int]bool), make([]int, len(h.names))
	for rank := range b.plan.Ranks {
		r := &b.plan.Ranks[rank]
		app, is := number[r.App]
		if !is {
			continue
		}
		host := h.ofNode[r.Node]
		m := world.Rank{Job: rank, App: app, Host: host, Node: r.Node, LocalRank: locals[host], NodeRank: h.nodeRank[rank]}
		m.CPUs, m.Locality = where(r)
		used[host], w.Ranks = true, append(w.Ranks, m)
		locals[host]++
	}
	b.namePolicies(&w, apps)
	keepHosts(&w, h.names, slices.Sorted(maps.Keys(used)))
	return w
}

// namePolicies says how the ranks of some programs were placed, where it is one way. Spawned ranks take
// slots in turn.
func (b *builder) namePolicies(w *world.World, apps []int) {
	var r placement.Request
	if b.earlier == 0 {
		wish := b.spec.placeOf(apps[0])
		if slices.ContainsFunc(apps, func(app int) bool { return b.spec.placeOf(app) != wish }) {
			return
		}
		wish.apply(&r)
		r.Oversubscribe = b.spec.Oversubscribe
	}
	bound := slices.ContainsFunc(w.Ranks, func(m world.Rank) bool { return m.CPUs != "" })
	w.MapBy, w.RankBy, w.BindTo = r.PolicyNames(bound)
}

// keepHosts gives a world the hosts that it uses and numbers them in it.
func keepHosts(w *world.World, names []string, used []int) {
	number := make(map[int]int, len(used))
	for i, host := range used {
		number[host], w.Hosts = i, append(w.Hosts, names[host])
	}
	for i := range w.Ranks {
		w.Ranks[i].Host = number[w.Ranks[i].Host]
	}
}

// universe is how many ranks there is room for on some hosts: what the user said, else their
// slots, where those were not said their cores, and what ranks they have at least.
func (s *Spec) universe(facts []Facts, ranks int) int {
	if s.Universe > 0 {
		return s.Universe
	}
	slots := 0
	for i, f := range facts {
		switch {
		case f.Task != nil:
			slots++
		case s.Join == nil && i < len(s.Hosts) && s.Hosts[i].Slots > 0:
			slots += s.Hosts[i].Slots
		case f.Ranks > 0:
			slots += f.Ranks
		default:
			slots += f.Machine.Cores()
		}
	}
	return max(slots, ranks)
}

// PMIDescriptor is the one by which every rank has its connection to a PMI server: the
// first behind the standard streams, which is what MPICH's own mpiexec counts from, too.
const PMIDescriptor = 3

// mpi is what ranks are told of MPI. Where the PMIx server of a rank's node is only its
// agent knows.
func (b *builder) mpi() plan.MPI {
	mode := b.plan.MPI
	m := plan.MPI{Offered: mode != MPINone, FD: strconv.Itoa(PMIDescriptor), URI: AtStart}
	if b.spec.PMIPort {
		m.FD, m.Port = "", AtStart
	}
	switch {
	case mode == MPIPMI2:
		m.Version = "2"
	case mode == MPIPMIx:
		m.Version = "x"
	case m.Offered:
		m.Version = "1"
	}
	hosts := make(map[string]bool)
	for _, w := range b.plan.Worlds {
		in := plan.World{Name: w.Name, Size: len(w.Ranks), Spawned: w.Parent.World != ""}
		for _, app := range w.Apps {
			in.Apps = append(in.Apps, app.NumRanks)
		}
		m.Worlds = append(m.Worlds, in)
		for _, host := range w.Hosts {
			hosts[host] = true
		}
	}
	m.SeveralHosts = len(hosts) > 1
	return m
}

// placeInWorlds tells ranks their places in MPI.
func (b *builder) placeInWorlds(ranks []plan.Rank) {
	for number := range b.plan.Worlds {
		w := &b.plan.Worlds[number]
		locals := make([]int, len(w.Hosts))
		for _, r := range w.Ranks {
			locals[r.Host]++
		}
		for rank, r := range w.Ranks {
			ranks[r.Job].MPI = plan.InWorld{
				World: number, Rank: rank, Job: b.earlier + r.Job, LocalRank: r.LocalRank, LocalSize: locals[r.Host],
				NodeRank: r.NodeRank, Host: w.Hosts[r.Host],
			}
		}
	}
}

// localities returns what finds the CPUs of a rank and where they are; "" where it may run on all of its host. It is
// found once for ranks that are bound alike on machines that are alike.
func (b *builder) localities() func(r *Rank) (cpus, locality string) {
	type bound struct {
		topology *placement.Topology
		cpus     string
	}
	known := make(map[bound]string)
	return func(r *Rank) (cpus, locality string) {
		f, set := &b.facts[r.Node], r.CPUs
		// a process that is one rank has those that it was started on
		if t := f.Machine.Topology; set.Len() == 0 && f.Task != nil && t != nil && f.Machine.CPUs.Len() < len(t.CPUs) {
			set = f.Machine.CPUs
		}
		if set.Len() == 0 {
			return "", ""
		}
		key := bound{f.Machine.Topology, set.String()}
		if _, is := known[key]; !is {
			known[key] = placement.Locality(f.Machine, set)
		}
		return key.cpus, known[key]
	}
}

// ProcsOf are the ranks of a node as members of the job's worlds.
func (p *Plan) ProcsOf(node int) (procs []world.Proc) {
	for _, w := range p.Worlds {
		for rank := range w.Ranks {
			if w.Ranks[rank].Node == node {
				procs = append(procs, world.Proc{World: w.Name, Rank: rank})
			}
		}
	}
	return procs
}
