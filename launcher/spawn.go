package launcher

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// spawns are worlds that ranks have requested by MPI_Comm_spawn and that are being started.
type spawns struct {
	lastNumber int
	pending    map[int]*pendingSpawn
}

type pendingSpawn struct {
	requester *node
	call      int
	world     string
	ranks     map[int][]int // by node; other nodes learn of the world before any frame of its ranks
	answered  map[int]bool  // by node with ranks of the world
	started   int           // number of ranks
	errors    []string
}

func (h *head) planAuthorizedSpawn(p *job.Plan, r job.SpawnRequest, number int) (*job.Plan, *job.Spawned, error) {
	if err := h.authorizeSpawn(p, r); err != nil {
		return nil, nil, err
	}
	return p.Spawn(&h.spec, factsOf(h.nodes), r, number)
}

// authorizeSpawn refuses spawns from nodes that are not trusted. An agent on another host may not
// claim that its program uses MPI: the user or this host must know.
func (h *head) authorizeSpawn(p *job.Plan, r job.SpawnRequest) error {
	n := h.nodes[r.Node]
	if n.kind == wire.PeerUnauthenticated {
		return errors.New(
			"this node joined without a token and may not start more ranks: give all nodes the same token (gorun token)")
	}
	rank, known := p.RankOf(r.By)
	if !known || p.Ranks[rank].Spawned || n.kind == wire.PeerLocal || h.spec.RequestsMPI() {
		return nil // a spawned rank was authorized before, and this process serves MPI itself
	}
	app := h.spec.Apps[p.Ranks[rank].App]
	if namesMPI4Py(&app) || h.linksMPI(p.Ranks[rank].App) {
		return nil
	}
	return fmt.Errorf(
		"%s is not known to use MPI and may not start ranks from another host: add --mpi auto if it uses MPI",
		app.Program)
}

// namesMPI4Py reports whether the user starts a program by python -m mpi4py.
func namesMPI4Py(app *job.App) bool {
	isIt := func(module string) bool { return module == "mpi4py" || strings.HasPrefix(module, "mpi4py.") }
	if app.Start == job.StartModule {
		return isIt(app.Program)
	}
	at := slices.Index(app.Args, "-m")
	return strings.HasPrefix(path.Base(app.Program), "python") && at >= 0 && at+1 < len(app.Args) && isIt(app.Args[at+1])
}

// linksMPI reports whether a program, as this host has it, links an MPI library.
func (c *call) linksMPI(app int) bool {
	a := &c.spec.Apps[app]
	found, err := c.resolve(c.commandOf(a))
	return err == nil && found.Path != "" && program.MPIFamily(c.rankPath(app, found.Path)) != ""
}

func (h *head) onSpawn(n *node, m wire.Spawn) error {
	if err := h.spawn(n, m); err != nil {
		// readLoop notices a lost link
		_ = n.link.Send(&wire.Spawned{Call: m.Call, Error: printable.Text(err.Error())})
	}
	return nil
}

// spawn announces the new world to all nodes. It holds the lock so that each node learns of the
// ranks before it gets orders about them.
func (h *head) spawn(n *node, m wire.Spawn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawns.lastNumber++
	number := h.spawns.lastNumber
	request := job.SpawnRequest{
		Spawn: m.Request, Node: n.number, Accepts: h.sup.CanGrow, Running: h.sup.NumRunning(),
		Ended: h.sup.Ended,
	}
	now, over := h.plan.Load().PruneWorlds(h.sup.Ended)
	next, more, err := h.planSpawn(now, request, number)
	if err != nil {
		return err
	}
	g := &pendingSpawn{requester: n, call: m.Call, world: more.World.Name, ranks: more.ByNode(), answered: map[int]bool{}}
	frames, err := h.growFrames(more, wire.Grow{Number: number, Call: m.Call, Over: over}, n)
	if err != nil {
		return err
	}
	if err := h.sup.Grow(g.ranks); err != nil {
		return err
	}
	if h.spawns.pending == nil {
		h.spawns.pending = map[int]*pendingSpawn{}
	}
	h.spawns.pending[number] = g
	h.plan.Store(next)
	for node, ranks := range g.ranks {
		h.credits[node].addRanks(len(ranks))
	}
	h.showRanks(more)
	for i, to := range h.nodes {
		_ = to.link.SendEncoded(frames[i]) // readLoop notices a lost link
	}
	return nil
}

// growFrames encodes what each node gets of a new world. m has what is the same for all; Call is
// for the requester only.
func (h *head) growFrames(more *job.Spawned, m wire.Grow, asker *node) (frames [][]byte, err error) {
	frames = make([][]byte, len(h.nodes))
	for i, to := range h.nodes {
		grow := m
		if to != asker {
			grow.Call = 0
		}
		addNodePart(&grow, more, to)
		if frames[i], err = wire.Encode(&grow); err != nil {
			return nil, fmt.Errorf("environment and arguments of %s are too large: %w", plural(len(more.Ranks), "rank"), err)
		}
	}
	return frames, nil
}

func (h *head) showRanks(more *job.Spawned) {
	infos := make([]output.RankInfo, len(more.Ranks))
	for i := range more.Ranks {
		infos[i] = rankInfo(h.plan.Load(), &more.Ranks[i])
	}
	h.console.Add(infos)
}

// addNodePart adds a node's part of a new world.
func addNodePart(m *wire.Grow, more *job.Spawned, n *node) {
	m.World, m.Common = more.World, entries(more.CommonOf(n.number))
	for _, app := range more.Apps {
		m.Programs = append(m.Programs, spec.Command{Name: app.Program, Args: app.Args, Dir: app.Dir, Path: app.Path})
	}
	for _, r := range more.Ranks {
		if r.Node == n.number {
			m.Ranks = append(m.Ranks, wire.Row{Process: r.Process, Env: entries(r.Env)})
		}
	}
}

func (h *head) onGrown(n *node, m wire.Grown) error {
	h.mu.Lock()
	g := h.spawns.pending[m.Number]
	if g == nil || g.ranks[n.number] == nil || g.answered[n.number] {
		h.mu.Unlock()
		return nil
	}
	g.answered[n.number] = true
	ev := job.Growth{
		Node: n.number, Ranks: g.ranks[n.number], PIDs: make(map[int]int, len(m.Ranks)), At: h.localTime(n, m.At),
	}
	for _, r := range m.Ranks {
		if slices.Contains(ev.Ranks, r.Rank) {
			ev.PIDs[r.Rank] = r.PID
		}
	}
	g.started += len(ev.PIDs)
	if len(ev.PIDs) < len(ev.Ranks) {
		h.plan.Store(h.plan.Load().Without(n.number, func(rank int) bool {
			return slices.Contains(ev.Ranks, rank) && ev.PIDs[rank] == 0
		}))
	}
	if m.Error != "" {
		g.errors = append(g.errors, h.startFailedEvent(n, wire.StartFailed{Text: m.Error}).Text)
	}
	over := len(g.answered) == len(g.ranks)
	if over {
		delete(h.spawns.pending, m.Number)
	}
	h.mu.Unlock()
	h.post(ev)
	if over {
		h.answerSpawn(g)
	}
	return nil
}

// answerSpawn answers the requester. If some ranks run and others could not be started, the job
// fails: the former would wait for the latter for ever.
func (h *head) answerSpawn(g *pendingSpawn) {
	answer := &wire.Spawned{Call: g.call, World: g.world, Error: strings.Join(g.errors, "; ")}
	_ = g.requester.link.Send(answer) // readLoop notices a lost link
	if len(g.errors) > 0 && g.started > 0 {
		h.post(job.StartFailed{Node: g.requester.number, Rank: -1, Code: job.ExitLauncher, Text: "MPI_Comm_spawn: " +
			answer.Error, At: time.Now()})
	}
}
