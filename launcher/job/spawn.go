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

// SpawnRequest is what a rank of a running job asks for by MPI_Comm_spawn.
type SpawnRequest struct {
	world.Spawn
	// Node is where that rank is, Accepts reports whether a node may still get ranks.
	Node    int
	Accepts func(node int) bool
	// Ended reports whether a rank has no process.
	Ended func(rank int) bool
	// Running is how many ranks run on each node of the plan, or are being started.
	Running []int
}

// Spawned are the ranks that a running job gets more. Their numbers follow those of the
// job's other ranks; RANK and WORLD_SIZE count in their own world.
type Spawned struct {
	World world.World
	Apps  []App
	Ranks []Rank
	// Common is what all of them share, Nodes what those of a node have besides.
	Common []plan.Variable
	Nodes  [][]plan.Variable
}

// CommonOf is what the new ranks of a node share.
func (s *Spawned) CommonOf(node int) []plan.Variable {
	return slices.Concat(s.Common, s.Nodes[node])
}

// ByNode are the numbers of the new ranks on each node that has some.
func (s *Spawned) ByNode() map[int][]int {
	ranks := map[int][]int{}
	for _, r := range s.Ranks {
		ranks[r.Node] = append(ranks[r.Node], r.Rank)
	}
	return ranks
}

// maxSpawned is how many ranks one call may ask for: nodes hear of all in one message.
const maxSpawned = 1 << 15

// A program that spawns itself would fill its hosts until nobody can end it: no more ranks
// than these run at the same time.
const (
	leastBound   = 1024
	timesAtStart = 16 // as many times as the job began with
)

// mostEver bounds the ranks that a job ever had: what ended is remembered for its report.
const mostEver = 1 << 20

// checkRunaway refuses what no program means to have.
func (p *Plan) checkRunaway(wish SpawnRequest, more int) error {
	began := 0
	for i := range p.Ranks {
		if !p.Ranks[i].Spawned {
			began++
		}
	}
	running, bound := 0, max(leastBound, timesAtStart*began)
	for _, n := range wish.Running {
		running += n
	}
	if running+more <= bound {
		return nil
	}
	return fmt.Errorf("%s: %d ranks run, and %d more would be above %d, the larger of %d and %d times the %d that the "+
		"job began with: if no program spawns itself by mistake, begin with more ranks (gorun -np), or spawn again when "+
		"some have ended",
		wish.Apps[0].Program, running, more, bound, leastBound, timesAtStart, began)
}

// Spawn plans more ranks for a running job: where they run and what they find in their
// environment. facts are those of the plan's nodes, and number tells this call from others
// of the same job. The plan itself does not change; the one returned has the ranks.
func (p *Plan) Spawn(spec *Spec, facts []Facts, wish SpawnRequest, number int) (*Plan, *Spawned, error) {
	if err := p.checkSpawner(wish); err != nil {
		return nil, nil, err
	}
	more := &Spawned{}
	room := maxSpawned
	for _, app := range wish.Apps {
		if app.NumRanks < 1 || app.NumRanks > room {
			return nil, nil, fmt.Errorf("%s: %d ranks cannot be started; one call starts up to %d", app.Program, app.NumRanks,
				maxSpawned)
		}
		room -= app.NumRanks
		more.Apps = append(more.Apps, p.spawnedApp(app, wish))
	}
	if err := p.checkRunaway(wish, maxSpawned-room); err != nil {
		return nil, nil, err
	}
	if err := p.placeMore(spec, facts, wish, more); err != nil {
		return nil, nil, err
	}
	if err := p.environmentOfMore(spec, facts, wish, number, more); err != nil {
		return nil, nil, err
	}
	return p.with(more), more, nil
}

// checkSpawner refuses what no running rank of the node has asked for.
func (p *Plan) checkSpawner(wish SpawnRequest) error {
	by, known := p.RankOf(wish.By)
	switch {
	case p.MPI == MPINone || len(p.Worlds) == 0:
		return errors.New("this job serves no MPI")
	case !known || p.Ranks[by].Node != wish.Node || wish.Ended(by):
		return fmt.Errorf("no rank %d of that MPI_COMM_WORLD runs on %s", wish.By.Rank, p.Nodes[wish.Node].Name)
	case len(wish.Apps) == 0:
		return errors.New("no program is named")
	case len(p.Ranks) > mostEver:
		return fmt.Errorf("the job has had %d ranks, more than %d: start another job", len(p.Ranks), mostEver)
	}
	for _, app := range wish.Apps {
		if i := slices.IndexFunc(app.Env, func(entry string) bool { return !world.IsVariable(entry) }); i >= 0 {
			return fmt.Errorf("%q cannot stand in an environment", app.Env[i])
		}
	}
	return nil
}

// spawnedApp is a program as a rank's caller named it: a name with a slash counts from
// that rank's directory.
func (p *Plan) spawnedApp(app world.SpawnApp, wish SpawnRequest) App {
	a := App{Program: app.Program, Args: app.Args, NumRanks: app.NumRanks, Dir: app.Dir, Path: app.Path}
	rank, _ := p.RankOf(wish.By)
	by, apps := &p.Ranks[rank], p.AppsOf(wish.Node)
	if by.Spawned { // a node's own ways of starting are of those that the job began with
		apps = p.Apps
	}
	own := apps[by.App].Dir
	switch {
	case a.Dir == "":
		a.Dir = own
	case !path.IsAbs(a.Dir) && own != "":
		a.Dir = path.Join(own, a.Dir)
	}
	for _, entry := range app.Env {
		name, value, _ := strings.Cut(entry, "=")
		if !plan.Exportable(name) { // Open MPI sends what its library found of its own rank
			continue
		}
		a.Exports = append(a.Exports, Export{Name: name, Value: value, HasValue: true})
	}
	return a
}

// RankOf is the job's rank that a member of one of its worlds is; known is false where it is none.
func (p *Plan) RankOf(proc world.Proc) (rank int, known bool) {
	for _, w := range p.Worlds {
		if w.Name == proc.World && proc.Rank >= 0 && proc.Rank < len(w.Ranks) {
			return w.Ranks[proc.Rank].Job, true
		}
	}
	return 0, false
}

// placeMore chooses nodes for the new ranks: first where slots are free, in the nodes'
// order, then one after another where the fewest ranks are.
func (p *Plan) placeMore(spec *Spec, facts []Facts, wish SpawnRequest, more *Spawned) error {
	load, local := slices.Clone(wish.Running), wish.Running
	rank := len(p.Ranks)
	for i, app := range wish.Apps {
		nodes, err := p.nodesFor(facts, wish, app)
		if err != nil {
			return err
		}
		for range app.NumRanks {
			node := p.next(spec, facts, nodes, load)
			load[node]++
			more.Ranks = append(more.Ranks, Rank{Process: Process{
				Rank: rank, Node: node, LocalRank: load[node] - 1 - local[node], App: i, Spawned: true,
			}})
			rank++
		}
	}
	return nil
}

// nodesFor are the nodes on which a program may run.
func (p *Plan) nodesFor(facts []Facts, wish SpawnRequest, app world.SpawnApp) (nodes []int, err error) {
	wanted, err := wantedHosts(app)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Name
	}
	for _, h := range wanted {
		if !slices.ContainsFunc(names, func(name string) bool { return hosts.SameName(name, h.Name) }) {
			return nil, fmt.Errorf("host %s: the job has %s", h.Name, HostRanges(names))
		}
	}
	for i, n := range p.Nodes {
		switch {
		case facts[i].Task != nil:
			return nil, errors.New("each rank of this job was started by itself, and none can be started more; start one " +
				"gorun on each node")
		// it runs its own command line alone, and nobody runs it
		case (facts[i].Joined || facts[wish.Node].Joined) && i != wish.Node:
		case !wish.Accepts(i):
		case wanted == nil || slices.ContainsFunc(wanted, func(h hosts.Host) bool { return hosts.SameName(n.Name, h.Name) }):
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return nil, errors.New("no host can take more ranks: the job is being ended")
	}
	return nodes, nil
}

func wantedHosts(app world.SpawnApp) ([]hosts.Host, error) {
	switch {
	case app.Hosts != "":
		return hosts.ParseList(app.Hosts, "MPI_Comm_spawn")
	case app.HostFile != "":
		f, err := hosts.ParseFile("MPI_Comm_spawn", app.HostFile)
		return f.Hosts, err
	}
	return nil, nil
}

// next is the node for one rank more.
func (p *Plan) next(spec *Spec, facts []Facts, nodes, load []int) int {
	for _, node := range nodes {
		if load[node] < p.slots(spec, facts, node) {
			return node
		}
	}
	return slices.MinFunc(nodes, func(a, b int) int { return cmp.Compare(load[a], load[b]) })
}

// slots is how many ranks a node is meant to take.
func (p *Plan) slots(spec *Spec, facts []Facts, node int) int {
	if at := p.Nodes[node].Fact; at < len(spec.Hosts) && spec.Hosts[at].Slots > 0 {
		return spec.Hosts[at].Slots
	}
	return facts[node].Machine.CPUs.Len()
}

// environmentOfMore decides what the new ranks find in their environment, as of a job that
// has them alone.
func (p *Plan) environmentOfMore(spec *Spec, facts []Facts, wish SpawnRequest, number int, more *Spawned) error {
	own := *p
	own.Ranks, own.Apps, own.Notes, own.Warnings = slices.Clone(more.Ranks), nil, nil, nil
	own.Store = Store{Mode: plan.StoreRank0} // the job's own is for those that it began with: their keys would be mixed up
	own.Nodes = slices.Clone(p.Nodes)
	for i := range own.Nodes {
		own.Nodes[i].Ranks, own.Nodes[i].Env, own.Nodes[i].Apps = nil, nil, nil
	}
	for i := range own.Ranks {
		own.Ranks[i].Rank = i
		n := &own.Nodes[own.Ranks[i].Node]
		n.Ranks = append(n.Ranks, i)
	}
	own.Apps = more.runs()
	theirs := *spec
	theirs.Apps, theirs.WorldPerApp = more.Apps, false
	b := &builder{spec: &theirs, facts: facts, ids: IDs{Job: p.JobID, Attempt: p.Attempt}, plan: &own}
	b.sharers = slices.Clone(wish.Running)
	for node, ranks := range more.ByNode() {
		b.sharers[node] += len(ranks)
	}
	b.earlier = len(p.Ranks)
	own.Worlds = b.worlds(facts)
	b.spawnedWorld(p, wish, number)
	environment, err := b.environment()
	if err != nil {
		return err
	}
	own.setEnvironment(environment)
	more.World = b.plan.Worlds[0]
	for i := range more.World.Ranks {
		more.World.Ranks[i].Job += len(p.Ranks)
	}
	for i := range more.Ranks {
		more.Ranks[i].Env = b.plan.Ranks[i].Env
	}
	for i := range b.plan.Nodes {
		more.Nodes = append(more.Nodes, b.plan.Nodes[i].Env)
	}
	more.Common = append(slices.Clip(b.plan.Common), more.shareExports()...)
	return nil
}

// shareExports takes from the ranks what was exported to all of them alike, and returns it: a
// message has room for it once. What ranks have is not among what they share.
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

// runs are the programs as the plan shows them.
func (s *Spawned) runs() (runs []AppRun) {
	for _, app := range s.Apps {
		runs = append(runs, AppRun{
			Path: app.Program, Argv: append([]string{app.Program}, app.Args...), Dir: app.Dir,
			Kind: "spawned", NumRanks: app.NumRanks,
		})
	}
	return runs
}

// spawnedWorld tells the world of spawned ranks from those that were there before.
func (b *builder) spawnedWorld(p *Plan, wish SpawnRequest, number int) {
	w := &b.plan.Worlds[0]
	first := &p.Worlds[0]
	w.Name, w.Universe, w.UniverseSet = fmt.Sprintf("%s-s%d", first.Name, number), first.Universe, first.UniverseSet
	w.Parent, w.Preput = wish.By, wish.Preput
	before := map[string]int{} // the first number that is free, by host
	for _, other := range p.Worlds {
		for _, r := range other.Ranks {
			before[other.Hosts[r.Host]] = max(before[other.Hosts[r.Host]], r.NodeRank+1)
		}
	}
	for i := range w.Ranks {
		r := &w.Ranks[i]
		r.NodeRank += before[w.Hosts[r.Host]]
	}
}

// keptWorlds is how many spawned worlds whose ranks have all ended are kept, those that came last:
// somebody may just be leaving one.
const keptWorlds = 8

// PruneWorlds is the plan without spawned worlds whose ranks have all ended, and the names of these.
func (p *Plan) PruneWorlds(ended func(rank int) bool) (*Plan, []string) {
	kept, over := map[string]bool{}, 0 // parents of such as are kept
	next := *p
	next.Worlds = nil
	var names []string
	for _, w := range slices.Backward(p.Worlds) {
		lives := w.Parent.World == "" || kept[w.Name] || slices.ContainsFunc(w.Ranks, func(r world.Rank) bool {
			return !ended(r.Job)
		})
		if !lives {
			over++
		}
		if !lives && over > keptWorlds {
			names = append(names, w.Name)
			continue
		}
		kept[w.Parent.World] = true
		next.Worlds = append(next.Worlds, w)
	}
	slices.Reverse(next.Worlds)
	return &next, names
}

// Without is the plan without ranks of a node that could not be started.
func (p *Plan) Without(node int, unstarted func(rank int) bool) *Plan {
	next := *p
	next.Nodes = slices.Clone(p.Nodes)
	next.Nodes[node].Ranks = slices.DeleteFunc(slices.Clone(p.Nodes[node].Ranks), unstarted)
	return &next
}

// with is the plan with more ranks.
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
