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

// worlds returns the MPI_COMM_WORLDs: one of all ranks, or with --world=app one of each program.
func (b *builder) worlds(facts []Facts) (worlds []world.World) {
	if b.plan.MPI == MPINone {
		return nil
	}
	apps := make([]int, len(b.plan.Apps))
	for app := range apps {
		apps[app] = app
	}
	size := max(1, len(apps))
	if b.spec.WorldPerApp {
		size = 1
	}
	h, universe := b.hosts(), b.spec.universe(facts, len(b.plan.Ranks))
	for group := range slices.Chunk(apps, size) {
		w := b.world(h, group)
		w.Name, w.Universe, w.UniverseSet = worldName(b.ids, len(worlds)), universe, b.spec.Universe != 0
		worlds = append(worlds, w)
	}
	return worlds
}

// checkMPIFamilies refuses programs in one MPI_COMM_WORLD whose MPI libraries cannot talk to each other.
func (b *builder) checkMPIFamilies() error {
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
				return fmt.Errorf("app %d (%s) uses %s, app %d (%s) uses %s: they cannot share an MPI_COMM_WORLD; "+
					"--world app gives each program a world of its own",
					first, b.spec.Apps[first].Program, f.Programs[first].MPI, app, b.spec.Apps[app].Program, p.MPI)
			}
		}
	}
	return nil
}

// worldName returns a name that cannot be guessed; see IDs.World.
func worldName(ids IDs, number int) string {
	if ids.World == AtStart {
		return AtStart
	}
	return fmt.Sprintf("gorun-%s-%d-%d", ids.World, ids.Attempt, number)
}

// mpiHosts are the hosts of a plan's nodes, several of which may be on one.
type mpiHosts struct {
	names    []string
	ofNode   []int
	nodeRank []int // by rank: its number on its host
}

// hosts finds the nodes that are on one host: by the resource manager for tasks, else by the kernel's boot id.
func (b *builder) hosts() mpiHosts {
	h, known, taken := mpiHosts{nodeRank: make([]int, len(b.plan.Ranks))}, make(map[string]int), make(map[string]bool)
	for node, f := range b.facts {
		key := f.hostKey()
		host, seen := known[key]
		if !seen || key == "" {
			host = len(h.names)
			known[key] = host
			name := b.plan.Nodes[node].Name
			for taken[name] { // MPI libraries tell hosts apart by their names
				name += fmt.Sprint("-", host)
			}
			taken[name] = true
			h.names = append(h.names, name)
		}
		h.ofNode = append(h.ofNode, host)
	}
	ranks := make([]int, len(h.names))
	for rank, r := range b.plan.Ranks {
		host := h.ofNode[r.Node]
		h.nodeRank[rank] = ranks[host]
		ranks[host]++
	}
	return h
}

// hostKey returns the same text for nodes on one host; "" if its host is not known.
func (f *Facts) hostKey() string {
	switch {
	case f.Task != nil:
		return fmt.Sprint("task ", f.Task.Node)
	case f.Boot != "":
		return "boot " + f.Boot
	}
	return ""
}

// world returns the world of the ranks of some programs.
func (b *builder) world(h mpiHosts, apps []int) world.World {
	var w world.World
	for _, app := range apps {
		run := b.plan.Apps[app]
		w.Apps = append(w.Apps, world.App{NumRanks: run.NumRanks, Argv: run.Argv, Dir: run.Dir})
	}
	w.Ranks = make([]world.Rank, 0, len(b.plan.Ranks))
	where, used, locals := b.localities(), make(map[int]bool), make([]int, len(h.names))
	for rank := range b.plan.Ranks {
		r := &b.plan.Ranks[rank]
		app := r.App - apps[0] // apps are consecutive
		if app < 0 || app >= len(apps) {
			continue
		}
		host := h.ofNode[r.Node]
		m := world.Rank{Job: rank, App: app, Host: host, Node: r.Node, LocalRank: locals[host], NodeRank: h.nodeRank[rank]}
		m.CPUs, m.Locality = where(r)
		used[host], w.Ranks = true, append(w.Ranks, m)
		locals[host]++
	}
	b.namePolicies(&w, apps)
	number := make([]int, len(h.names)) // of each host in the world
	for _, host := range slices.Sorted(maps.Keys(used)) {
		number[host], w.Hosts = len(w.Hosts), append(w.Hosts, h.names[host])
	}
	for i := range w.Ranks {
		w.Ranks[i].Host = number[w.Ranks[i].Host]
	}
	return w
}

// namePolicies names how the ranks of some programs were placed, if they have one policy. Spawned ranks take slots in
// turn.
func (b *builder) namePolicies(w *world.World, apps []int) {
	var r placement.Request
	if b.earlier == 0 {
		place := b.spec.placeOf(apps[0])
		if slices.ContainsFunc(apps, func(app int) bool { return b.spec.placeOf(app) != place }) {
			return
		}
		r = place.Request
		r.Oversubscribe = b.spec.Oversubscribe
	}
	bound := slices.ContainsFunc(w.Ranks, func(m world.Rank) bool { return m.CPUs != "" })
	w.MapBy, w.RankBy, w.BindTo = r.PolicyNames(bound)
}

// universe returns how many ranks hosts have room for: the user's number, else their slots or cores, and at least the
// number of ranks.
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

// PMIDescriptor is the descriptor of every rank's connection to a PMI server: the first one behind the standard
// streams, as with MPICH's mpiexec.
const PMIDescriptor = 3

// mpi returns what ranks need to know about MPI. Only a rank's agent knows where its PMIx server is.
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

// placeInWorlds sets the numbers that MPI's dialects give ranks.
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

// localities returns a function that finds a rank's CPUs and their locality; "" if it may run on all of its host.
// Ranks with one binding on machines of one topology share the result.
func (b *builder) localities() func(r *Rank) (cpus, locality string) {
	type binding struct {
		topology *placement.Topology
		cpus     string
	}
	known := make(map[binding]string)
	return func(r *Rank) (cpus, locality string) {
		f, set := &b.facts[r.Node], r.CPUs
		// a task has the CPUs of its process
		if t := f.Machine.Topology; set.Len() == 0 && f.Task != nil && t != nil && f.Machine.CPUs.Len() < len(t.CPUs) {
			set = f.Machine.CPUs
		}
		if set.Len() == 0 {
			return "", ""
		}
		key := binding{f.Machine.Topology, set.String()}
		if _, is := known[key]; !is {
			known[key] = placement.Locality(f.Machine, set)
		}
		return key.cpus, known[key]
	}
}

// RankOf returns the job's rank that is a member of one of its worlds; known is false if none exists.
func (p *Plan) RankOf(proc world.Proc) (rank int, known bool) {
	for _, w := range p.Worlds {
		if w.Name == proc.World && proc.Rank >= 0 && proc.Rank < len(w.Ranks) {
			return w.Ranks[proc.Rank].Job, true
		}
	}
	return 0, false
}

// ProcsOf returns the ranks of a node as members of the job's worlds.
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
