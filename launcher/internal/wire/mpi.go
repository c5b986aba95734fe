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
	// PMIPort says that ranks come to a port of their node for PMI, instead of having a
	// connection from the beginning.
	PMIPort bool
	// Why none is served, in the user's words, and what to do.
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
	// whether it had begun MPI. With a Text that says why they wait in vain.
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

// MPIWait is that a rank waits in MPI.
type MPIWait struct {
	// For are the ranks of the job that it waits for; none: such as are on other nodes.
	For []int
	// Init says that those have not begun MPI.
	Init bool
}

func (w *MPIWait) fields(c *coder) {
	numbers(c, 1, &w.For)
	c.flag(2, &w.Init)
}

func (m *MPI) fields(c *coder) {
	c.flag(1, &m.PMI)
	c.flag(2, &m.PMIx)
	number(c, 3, &m.PMIVersion)
	text(c, 4, &m.Why)
	number(c, 5, &m.Node)
	number(c, 6, &m.NumNodes)
	number(c, 7, &m.NumRanks)
	foreign(c, 8, &m.Worlds, asWorld)
	c.flag(9, &m.PMIPort)
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
