package job

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gorun/env/plan"
	"gorun/launcher/hosts"
	"gorun/rendezvous/world"
)

// SpawnRequest is a call of MPI_Comm_spawn by a rank of a running job.
type SpawnRequest struct {
	world.Spawn
	// Node is where that rank is, Accepts reports whether a node may get more ranks.
	Node    int
	Accepts func(node int) bool
	// Ended reports whether a rank has no process.
	Ended func(rank int) bool
	// Running is how many ranks run, or are being started, on each node of the plan.
	Running []int
}

// Spawned are the ranks that a running job gets. Their numbers follow those of the job's other ranks; RANK and
// WORLD_SIZE count in their own world.
type Spawned struct {
	World world.World
	Apps  []App
	Ranks []Rank
	// Common is what all of them share, Nodes what those of a node share besides.
	Common []plan.Variable
	Nodes  [][]plan.Variable
}

// CommonOf returns the variables that the new ranks of a node share.
func (s *Spawned) CommonOf(node int) []plan.Variable {
	return slices.Concat(s.Common, s.Nodes[node])
}

// ByNode returns the numbers of the new ranks by node.
func (s *Spawned) ByNode() map[int][]int {
	ranks := map[int][]int{}
	for _, r := range s.Ranks {
		ranks[r.Node] = append(ranks[r.Node], r.Rank)
	}
	return ranks
}

const (
	// maxSpawned is how many ranks one call may start: nodes get all of them in one frame.
	maxSpawned = 1 << 15

	// A program that spawns itself would fill its hosts until nobody can end it. A job may have runningFloor ranks at
	// the same time, or runningFactor times as many as it began with.
	runningFloor  = 1024
	runningFactor = 16

	// maxEver bounds the ranks that a job ever had, as all are kept for its report.
	maxEver = 1 << 20
)

// Spawn plans more ranks for a running job. facts are those of the plan's nodes, and number tells this call from
// others of the same job. It returns a copy of the plan with the new ranks.
func (p *Plan) Spawn(spec *Spec, facts []Facts, req SpawnRequest, number int) (*Plan, *Spawned, error) {
	if err := p.checkSpawner(req); err != nil {
		return nil, nil, err
	}
	more, total := &Spawned{}, 0
	for _, app := range req.Apps {
		if app.NumRanks < 1 || app.NumRanks > maxSpawned-total {
			return nil, nil, fmt.Errorf("%s: %d ranks cannot be started; one call starts up to %d", app.Program,
				app.NumRanks, maxSpawned)
		}
		total += app.NumRanks
		more.Apps = append(more.Apps, p.spawnedApp(app, req))
	}
	if err := p.checkRunning(req, total); err != nil {
		return nil, nil, err
	}
	if err := p.placeMore(spec, facts, req, more); err != nil {
		return nil, nil, err
	}
	if err := p.prepare(spec, facts, req, number, more); err != nil {
		return nil, nil, err
	}
	return p.with(more), more, nil
}

// checkSpawner refuses requests that no running rank of the node can have made.
func (p *Plan) checkSpawner(req SpawnRequest) error {
	by, known := p.RankOf(req.By)
	switch {
	case p.MPI == MPINone || len(p.Worlds) == 0:
		return errors.New("this job serves no MPI")
	case !known || p.Ranks[by].Node != req.Node || req.Ended(by):
		return fmt.Errorf("rank %d of that MPI_COMM_WORLD does not run on %s", req.By.Rank, p.Nodes[req.Node].Name)
	case len(req.Apps) == 0:
		return errors.New("no program given")
	case len(p.Ranks) > maxEver:
		return fmt.Errorf("the job has had %d ranks, more than %d: start another job", len(p.Ranks), maxEver)
	}
	for _, app := range req.Apps {
		if i := slices.IndexFunc(app.Env, func(entry string) bool { return !world.IsVariable(entry) }); i >= 0 {
			return fmt.Errorf("%q is not a valid environment variable", app.Env[i])
		}
	}
	return nil
}

// checkRunning refuses more ranks than any program means to have.
func (p *Plan) checkRunning(req SpawnRequest, more int) error {
	began := 0
	for i := range p.Ranks {
		if !p.Ranks[i].Spawned {
			began++
		}
	}
	running, limit := 0, max(runningFloor, runningFactor*began)
	for _, n := range req.Running {
		running += n
	}
	if running+more <= limit {
		return nil
	}
	return fmt.Errorf("%s: %d ranks run, and %d more would exceed %d, the larger of %d and %d times the %d that the "+
		"job began with: check that no program spawns itself by mistake, begin with more ranks (gorun -np), or spawn again "+
		"when some have ended",
		req.Apps[0].Program, running, more, limit, runningFloor, runningFactor, began)
}

// spawnedApp returns a program as its caller named it: relative paths count from the caller's directory.
func (p *Plan) spawnedApp(app world.SpawnApp, req SpawnRequest) App {
	a := App{Program: app.Program, Args: app.Args, NumRanks: app.NumRanks, Dir: app.Dir, Path: app.Path}
	rank, _ := p.RankOf(req.By)
	by, apps := &p.Ranks[rank], p.AppsOf(req.Node)
	if by.Spawned { // Node.Apps are those that the job began with
		apps = p.Apps
	}
	if dir := apps[by.App].Dir; dir != "" && !path.IsAbs(a.Dir) {
		a.Dir = path.Join(dir, a.Dir)
	}
	for _, entry := range app.Env {
		name, value, _ := strings.Cut(entry, "=")
		if plan.Exportable(name) { // Open MPI also sends what its library found about its own rank
			a.Exports = append(a.Exports, Export{Name: name, Value: value, HasValue: true})
		}
	}
	return a
}

// placeMore chooses nodes for the new ranks: those with free slots, in their order, then those with the fewest ranks.
func (p *Plan) placeMore(spec *Spec, facts []Facts, req SpawnRequest, more *Spawned) error {
	load := slices.Clone(req.Running)
	for i, app := range req.Apps {
		nodes, err := p.nodesFor(facts, req, app)
		if err != nil {
			return err
		}
		for range app.NumRanks {
			node := slices.MinFunc(nodes, func(a, b int) int { return cmp.Compare(load[a], load[b]) })
			if i := slices.IndexFunc(nodes, func(n int) bool { return load[n] < p.slots(spec, facts, n) }); i >= 0 {
				node = nodes[i]
			}
			more.Ranks = append(more.Ranks, Rank{Process: Process{
				Rank: len(p.Ranks) + len(more.Ranks), Node: node, LocalRank: load[node] - req.Running[node], App: i, Spawned: true,
			}})
			load[node]++
		}
	}
	return nil
}

// nodesFor returns the nodes on which a program may run.
func (p *Plan) nodesFor(facts []Facts, req SpawnRequest, app world.SpawnApp) (nodes []int, err error) {
	wanted, err := requestedHosts(app)
	if err != nil {
		return nil, err
	}
	names := p.Hosts()
	for _, h := range wanted {
		if !slices.ContainsFunc(names, func(name string) bool { return hosts.SameName(name, h.Name) }) {
			return nil, fmt.Errorf("host %s: the job has %s", h.Name, HostRanges(names))
		}
	}
	for i, name := range names {
		switch {
		case facts[i].Task != nil:
			return nil, errors.New("this job cannot start more ranks, because each was started by itself; start one " +
				"gorun on each node")
		case (facts[i].Joined || facts[req.Node].Joined) && i != req.Node: // a joined node runs its own programs alone
		case !req.Accepts(i):
		case wanted == nil || slices.ContainsFunc(wanted, func(h hosts.Host) bool { return hosts.SameName(name, h.Name) }):
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return nil, errors.New("no host can take more ranks: the job is stopping")
	}
	return nodes, nil
}

func requestedHosts(app world.SpawnApp) ([]hosts.Host, error) {
	switch {
	case app.Hosts != "":
		return hosts.ParseList(app.Hosts, "MPI_Comm_spawn")
	case app.HostFile != "":
		f, err := hosts.ParseFile("MPI_Comm_spawn", app.HostFile)
		return f.Hosts, err
	}
	return nil, nil
}

// slots is how many ranks a node is meant to take.
func (p *Plan) slots(spec *Spec, facts []Facts, node int) int {
	if at := p.Nodes[node].Fact; at < len(spec.Hosts) && spec.Hosts[at].Slots > 0 {
		return spec.Hosts[at].Slots
	}
	return facts[node].Machine.CPUs.Len()
}

// prepare gives the new ranks their world and their environment, as in a job of these ranks alone.
func (p *Plan) prepare(spec *Spec, facts []Facts, req SpawnRequest, number int, more *Spawned) error {
	own := &Plan{
		JobID: p.JobID, RunID: p.RunID, Role: p.Role, MPI: p.MPI, Apps: more.runs(), Ranks: slices.Clone(more.Ranks),
		Store: Store{Mode: plan.StoreRank0}, // the job's own would mix their keys with those of its first ranks
	}
	for _, n := range p.Nodes {
		own.Nodes = append(own.Nodes, Node{Name: n.Name, Role: n.Role})
	}
	s := *spec
	s.Apps, s.WorldPerApp = more.Apps, false
	b := &builder{
		spec: &s, facts: facts, ids: IDs{Job: p.JobID, Attempt: p.Attempt}, plan: own, sharers: slices.Clone(req.Running),
		earlier: len(p.Ranks),
	}
	for i := range own.Ranks {
		r := &own.Ranks[i]
		r.Rank = i
		b.sharers[r.Node]++
	}
	own.Worlds = b.worlds(facts)
	p.relate(&own.Worlds[0], req, number)
	if err := b.setEnvironment(); err != nil {
		return err
	}
	more.World = own.Worlds[0]
	for i := range more.Ranks {
		more.World.Ranks[i].Job += b.earlier
		more.Ranks[i].Env = own.Ranks[i].Env
	}
	for _, n := range own.Nodes {
		more.Nodes = append(more.Nodes, n.Env)
	}
	more.Common = slices.Concat(own.Common, more.shareExports())
	return nil
}

// relate names a world of spawned ranks, and numbers its ranks behind those of other worlds on their hosts.
func (p *Plan) relate(w *world.World, req SpawnRequest, number int) {
	first := &p.Worlds[0]
	w.Name, w.Universe, w.UniverseSet = fmt.Sprintf("%s-s%d", first.Name, number), first.Universe, first.UniverseSet
	w.Parent, w.Preput = req.By, req.Preput
	free := map[string]int{} // the first free number, by host
	for _, other := range p.Worlds {
		for _, r := range other.Ranks {
			host := other.Hosts[r.Host]
			free[host] = max(free[host], r.NodeRank+1)
		}
	}
	for i := range w.Ranks {
		r := &w.Ranks[i]
		r.NodeRank += free[w.Hosts[r.Host]]
	}
}

// shareExports removes from the ranks what was exported to all of them, and returns it: a frame has room for it once.
func (s *Spawned) shareExports() (shared []plan.Variable) {
	for _, v := range s.Ranks[0].Env {
		if v.Origin == plan.Exported && !slices.ContainsFunc(s.Ranks[1:], func(r Rank) bool {
			return !slices.Contains(r.Env, v)
		}) {
			shared = append(shared, v)
		}
	}
	for i := range s.Ranks {
		r := &s.Ranks[i]
		r.Env = slices.DeleteFunc(slices.Clone(r.Env), func(v plan.Variable) bool { return slices.Contains(shared, v) })
	}
	return shared
}

// runs returns the programs as the plan shows them.
func (s *Spawned) runs() (runs []AppRun) {
	for _, app := range s.Apps {
		runs = append(runs, AppRun{
			Path: app.Program, Argv: append([]string{app.Program}, app.Args...), Dir: app.Dir,
			Kind: "spawned", NumRanks: app.NumRanks,
		})
	}
	return runs
}

// with returns a copy of the plan with more ranks.
func (p *Plan) with(more *Spawned) *Plan {
	next := *p
	next.Worlds = slices.Concat(p.Worlds, []world.World{more.World})
	next.Nodes = slices.Clone(p.Nodes)
	for node, ranks := range more.ByNode() {
		next.Nodes[node].Ranks = slices.Concat(p.Nodes[node].Ranks, ranks)
	}
	next.Apps = slices.Concat(p.Apps, more.runs())
	next.Ranks = slices.Clip(p.Ranks)
	for _, r := range more.Ranks {
		r.App += len(p.Apps)
		next.Ranks = append(next.Ranks, r)
	}
	return &next
}

// Without returns a copy of the plan without ranks of a node that could not be started.
func (p *Plan) Without(node int, unstarted func(rank int) bool) *Plan {
	next := *p
	next.Nodes = slices.Clone(p.Nodes)
	next.Nodes[node].Ranks = slices.DeleteFunc(slices.Clone(p.Nodes[node].Ranks), unstarted)
	return &next
}

// keptWorlds is how many ended worlds are kept, the last ones: other ranks may still be disconnecting from them.
const keptWorlds = 8

// PruneWorlds returns a copy of the plan without spawned worlds whose ranks have all ended, and the names of these.
func (p *Plan) PruneWorlds(ended func(rank int) bool) (*Plan, []string) {
	parents, over := map[string]bool{}, 0 // parents: of worlds that are kept
	next := *p
	next.Worlds = nil
	var names []string
	for _, w := range slices.Backward(p.Worlds) {
		lives := w.Parent.World == "" || parents[w.Name] || slices.ContainsFunc(w.Ranks, func(r world.Rank) bool {
			return !ended(r.Job)
		})
		if !lives {
			over++
		}
		if !lives && over > keptWorlds {
			names = append(names, w.Name)
			continue
		}
		parents[w.Parent.World] = true
		next.Worlds = append(next.Worlds, w)
	}
	slices.Reverse(next.Worlds)
	return &next, names
}
