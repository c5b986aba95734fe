package wire

import (
	"time"

	"gorun/rendezvous/world"
)

// MPI is what a node needs to know to serve MPI's start-up protocols to its ranks.
type MPI struct {
	// PMI and PMIx say which are served; PMIVersion is the only one of PMI, 0: both.
	PMI, PMIx  bool
	PMIVersion int
	// Why none is served, in the user's words: "--mpi=none".
	Why string
	// Node is this node's number, NumNodes how many the job has, NumRanks its ranks.
	Node, NumNodes, NumRanks int
	// Worlds are all of the job.
	Worlds []world.World
}

// MPIKind says what an MPIEvent is about.
type MPIKind uint8

// The kinds.
const (
	// MPIAborted is MPI_Abort: by Rank, with Code, and with Text as the rank's message.
	MPIAborted MPIKind = iota + 1
	// MPIStuck says that the ranks Waiting wait for Rank, which has ended: Begun tells
	// whether it had begun MPI.
	MPIStuck
)

// MPIEvent tells what ranks did that the head decides about. Ranks count in the job.
type MPIEvent struct {
	Kind    MPIKind
	Rank    int
	Waiting []int
	Begun   bool
	Code    int
	Text    string
	At      time.Time
}

// RankMPI says how far a rank had come in MPI: by which protocol it began
// ("PMI-1", "PMIx 4.2.2"), and whether it had finalized.
type RankMPI struct {
	Protocol  string
	Finalized bool
}

// World tells a node of a world more, whose ranks are started in a running job: those
// that are the node's.
type World struct {
	World  world.World
	Common []string // NAME=VALUE, what they share, instead of Start's
	Apps   []App
	Ranks  []Row
}

// Spawn asks the head for a world more; Spawned with the same ID answers it.
type Spawn struct {
	ID     int
	By     world.Proc
	Apps   []world.SpawnApp
	Preput []world.Pair
}

// Spawned names the new world, whose ranks were started, or says why there is none.
type Spawned struct {
	ID    int
	Name  string
	Error string
}

func (m *MPI) fields(c *coder) {
	c.flag(1, &m.PMI)
	c.flag(2, &m.PMIx)
	number(c, 3, &m.PMIVersion)
	text(c, 4, &m.Why)
	number(c, 5, &m.Node)
	number(c, 6, &m.NumNodes)
	number(c, 7, &m.NumRanks)
	foreign(c, 8, &m.Worlds, func(w *world.World) fielder { return (*mpiWorld)(w) })
}

func (*MPIEvent) Type() Type { return TypeMPI }

func (m *MPIEvent) fields(c *coder) {
	number(c, 1, &m.Kind)
	number(c, 2, &m.Rank)
	numbers(c, 3, &m.Waiting)
	c.flag(4, &m.Begun)
	number(c, 5, &m.Code)
	text(c, 6, &m.Text)
	c.moment(7, &m.At)
}

func (r *RankMPI) fields(c *coder) {
	text(c, 1, &r.Protocol)
	c.flag(2, &r.Finalized)
}

func (*World) Type() Type { return TypeWorld }

func (m *World) fields(c *coder) {
	c.part(1, (*mpiWorld)(&m.World))
	c.texts(2, &m.Common)
	parts(c, 3, &m.Apps)
	parts(c, 4, &m.Ranks)
}

func (*Spawn) Type() Type { return TypeSpawn }

func (m *Spawn) fields(c *coder) {
	number(c, 1, &m.ID)
	c.part(2, (*mpiProc)(&m.By))
	foreign(c, 3, &m.Apps, func(a *world.SpawnApp) fielder { return (*spawnApp)(a) })
	c.pairs(4, &m.Preput)
}

func (*Spawned) Type() Type { return TypeSpawned }

func (m *Spawned) fields(c *coder) {
	number(c, 1, &m.ID)
	text(c, 2, &m.Name)
	text(c, 3, &m.Error)
}

// Worlds are rendezvous', which knows nothing of frames: these are its types with fields.
type (
	mpiWorld world.World
	mpiApp   world.App
	mpiRank  world.Rank
	mpiPair  world.Pair
	mpiProc  world.Proc
	spawnApp world.SpawnApp
)

func (w *mpiWorld) fields(c *coder) {
	text(c, 1, &w.Name)
	c.texts(2, &w.Hosts)
	foreign(c, 3, &w.Apps, func(a *world.App) fielder { return (*mpiApp)(a) })
	foreign(c, 4, &w.Ranks, func(r *world.Rank) fielder { return (*mpiRank)(r) })
	number(c, 5, &w.Universe)
	c.part(6, (*mpiProc)(&w.Parent))
	c.pairs(7, &w.Preput)
}

func (a *mpiApp) fields(c *coder) {
	number(c, 1, &a.NumRanks)
	c.texts(2, &a.Argv)
	text(c, 3, &a.Dir)
}

func (r *mpiRank) fields(c *coder) {
	number(c, 1, &r.Job)
	number(c, 2, &r.App)
	number(c, 3, &r.Host)
	number(c, 4, &r.Node)
	number(c, 5, &r.LocalRank)
	number(c, 6, &r.NodeRank)
	text(c, 7, &r.CPUs)
	text(c, 8, &r.Locality)
}

func (c *coder) pairs(num int, p *[]world.Pair) {
	foreign(c, num, p, func(v *world.Pair) fielder { return (*mpiPair)(v) })
}

func (p *mpiPair) fields(c *coder) {
	text(c, 1, &p.Key)
	text(c, 2, &p.Value)
}

func (p *mpiProc) fields(c *coder) {
	text(c, 1, &p.World)
	number(c, 2, &p.Rank)
}

func (a *spawnApp) fields(c *coder) {
	text(c, 1, &a.Program)
	text(c, 2, &a.Path)
	c.texts(3, &a.Args)
	number(c, 4, &a.NumRanks)
	text(c, 5, &a.Dir)
	c.texts(6, &a.Env)
	text(c, 7, &a.Hosts)
	text(c, 8, &a.HostFile)
	c.pairs(9, &a.Info)
}
