package wire

import (
	"time"

	"gorun/rendezvous/world"
)

// MPI is what a node needs to know to serve MPI's start-up protocols to its ranks.
type MPI struct {
	// Offered says that ranks find the servers of PMI and PMIx. Only is the one protocol that
	// these serve, "PMI-1", "PMI-2" or "PMIx"; "": all of them. Who asks for another is refused.
	Offered bool
	Only    string
	// PMIPort says that ranks come to a port of their node for PMI, instead of having a
	// connection from the beginning.
	PMIPort bool
	// Why none is served, in the user's words, and what to do.
	Why string
	// Node is this node's number, NumRanks how many ranks the job has.
	Node, NumRanks int
	// Worlds are all of the job. Where EncodedWorlds is set, which EncodeWorlds made of them,
	// that is sent in their place: every node is told of all ranks.
	Worlds        []world.World
	EncodedWorlds []byte `json:"-"`
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
	// MPIFailed says that Rank has failed by a rule that it made itself, with Text as why.
	MPIFailed
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
	// Spawns says that it waits for ranks which it spawns.
	Spawns bool
}

func (w *MPIWait) fields(c *coder) {
	numbers(c, 1, &w.For)
	c.flag(2, &w.Init)
	c.flag(3, &w.Spawns)
}

func (m *MPI) fields(c *coder) {
	c.flag(1, &m.Offered)
	text(c, 2, &m.Only)
	text(c, 4, &m.Why)
	number(c, 5, &m.Node)
	c.flag(6, &m.PMIPort)
	number(c, 7, &m.NumRanks)
	if !c.reading && m.EncodedWorlds != nil {
		c.out = append(c.out, m.EncodedWorlds...)
		return
	}
	m.worlds(c)
}

func (m *MPI) worlds(c *coder) { foreign(c, 8, &m.Worlds, asWorld) }

// EncodeWorlds is for MPI.EncodedWorlds.
func EncodeWorlds(worlds []world.World) []byte {
	c := coder{out: []byte{}}
	(&MPI{Worlds: worlds}).worlds(&c)
	return c.out
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
