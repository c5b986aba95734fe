package launcher

import (
	"slices"
	"strings"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// growths are the worlds that ranks have asked for and that are being started.
type growths struct {
	last int
	// open: all nodes were told to start their ranks. Until then wishes wait in early.
	open    bool
	early   []func()
	pending map[int]*growth
}

// growth is one of them.
type growth struct {
	asker    *node
	call     int
	world    string
	ranks    map[int][]int // by node
	waiting  int           // nodes with ranks of it that have not answered
	answered map[int]bool  // by node
	started  int           // ranks
	errors   []string
}

// moreRanks plans a world more for a wish of a running job's rank.
func (s *session) moreRanks(p *job.Plan, wish job.SpawnWish, number int) (*job.Plan, *job.Spawned, error) {
	facts := make([]job.Facts, len(s.active))
	for i, n := range s.active {
		facts[i] = n.facts
	}
	return p.Spawn(&s.spec, facts, wish, number)
}

// spawn fulfils MPI_Comm_spawn, or says why not.
func (h *head) spawn(n *node, m wire.Spawn) {
	if h.isEarly(func() { h.spawn(n, m) }) {
		return
	}
	if err := h.tryToSpawn(n, m); err != nil {
		_ = n.link.Send(&wire.Spawned{Call: m.Call, Error: printable.Text(err.Error())}) // or the node is lost, which its reader knows
	}
}

// isEarly reports whether not all nodes have been told to start their ranks, without which they
// can do nothing about more; spawn is called when they have.
func (h *head) isEarly(spawn func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.growths.open {
		h.growths.early = append(h.growths.early, spawn)
	}
	return !h.growths.open
}

// openGrowths is for when all nodes have been told.
func (h *head) openGrowths() {
	h.mu.Lock()
	early := h.growths.early
	h.growths.open, h.growths.early = true, nil
	h.mu.Unlock()
	for _, spawn := range early {
		spawn()
	}
}

// tryToSpawn has every node hear of the new world. It is locked against the supervisor's
// orders, so that each node hears of ranks before it hears what is to become of them.
func (h *head) tryToSpawn(n *node, m wire.Spawn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.growths.last++
	number := h.growths.last
	wish := job.SpawnWish{Spawn: m.Wish, Node: n.number, Accepts: h.sup.CanGrow, Running: h.sup.NumRunning()}
	next, more, err := h.moreRanks(h.plan.Load(), wish, number)
	if err != nil {
		return err
	}
	g := &growth{asker: n, call: m.Call, world: more.World.Name, ranks: more.ByNode(), answered: map[int]bool{}}
	g.waiting = len(g.ranks) // the others hear of the world before anything that its ranks say
	if err := h.sup.Grow(g.ranks); err != nil {
		return err
	}
	if h.growths.pending == nil {
		h.growths.pending = map[int]*growth{}
	}
	h.growths.pending[number] = g
	h.plan.Store(next)
	h.show(more)
	for _, to := range h.nodes {
		grow := growMessage(more, to, number)
		if to == n {
			grow.Call = m.Call
		}
		_ = to.link.Send(grow) // or the node is lost
	}
	return nil
}

// show has the console know of new ranks.
func (h *head) show(more *job.Spawned) {
	infos := make([]output.RankInfo, len(more.Ranks))
	for i, r := range more.Ranks {
		infos[i] = output.RankInfo{Rank: r.Rank, LocalRank: r.LocalRank, Host: h.plan.Load().Nodes[r.Node].Name, Role: h.plan.Load().Role}
	}
	h.console.Add(infos)
}

// growMessage tells a node of a new world and of its ranks there.
func growMessage(more *job.Spawned, n *node, number int) *wire.Grow {
	m := &wire.Grow{Number: number, World: more.World, Common: assignments(more.CommonOf(n.number))}
	for i, app := range more.Apps {
		m.Programs = append(m.Programs, wire.Program{Name: app.Program, Args: app.Args, Dir: app.Dir, Path: more.Paths[i]})
	}
	for _, r := range more.Ranks {
		if r.Node == n.number {
			m.Ranks = append(m.Ranks, wire.Row{Rank: r.Rank, LocalRank: r.LocalRank, App: r.App, Env: assignments(r.Env), Spawned: true})
		}
	}
	return m
}

// grown hears how a node has fared with its part of a new world.
func (h *head) grown(n *node, m wire.Grown) {
	h.mu.Lock()
	g := h.growths.pending[m.Number]
	if g == nil || g.ranks[n.number] == nil || g.answered[n.number] {
		h.mu.Unlock()
		return
	}
	g.answered[n.number] = true
	ev := job.Growth{Node: n.number, Ranks: g.ranks[n.number], PIDs: make(map[int]int, len(m.Ranks)), At: n.clock.ours(m.At)}
	for _, r := range m.Ranks {
		if slices.Contains(ev.Ranks, r.Rank) {
			ev.PIDs[r.Rank] = r.PID
		}
	}
	g.started += len(ev.PIDs)
	if m.Error != "" {
		g.errors = append(g.errors, h.startFailed(n, wire.StartFailed{Text: m.Error}).Text)
	}
	g.waiting--
	over := g.waiting == 0
	if over {
		delete(h.growths.pending, m.Number)
	}
	h.mu.Unlock()
	h.post(ev)
	if over {
		h.settle(g)
	}
}

// settle answers the rank that asked. Where some of the ranks run and others could not be
// started the former would wait for the latter for ever.
func (h *head) settle(g *growth) {
	answer := &wire.Spawned{Call: g.call, World: g.world, Error: strings.Join(g.errors, "; ")}
	_ = g.asker.link.Send(answer) // or the node is lost
	if len(g.errors) > 0 && g.started > 0 {
		h.post(job.StartFailed{Node: g.asker.number, Rank: -1, Code: job.ExitLauncher, Text: "MPI_Comm_spawn: " + answer.Error, At: time.Now()})
	}
}
