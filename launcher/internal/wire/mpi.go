package wire

import (
	"time"

	"gorun/launcher/internal/spec"
	"gorun/rendezvous/exchange"
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

// MPIEvent tells what ranks did that the head decides about: one aborted, or failed by a rule of its own, or others
// wait for one in vain. Ranks count in the job.
type MPIEvent struct {
	Rank  int // that aborted
	Abort *spec.MPIAbort
	Stuck *spec.MPIStuck
	At    time.Time
}

// EncodeWorlds is for MPI.EncodedWorlds.
func EncodeWorlds(worlds []world.World) []byte { return appendMessage([]byte{}, &worlds) }

// complete sets Worlds from EncodedWorlds.
func (m *Start) complete() error {
	if m.MPI.EncodedWorlds == nil {
		return nil
	}
	encoded := m.MPI.EncodedWorlds
	m.MPI.EncodedWorlds = nil
	return readMessage(encoded, &m.MPI.Worlds)
}

// Exchange carries a message of the exchange plane, either way.
type Exchange struct {
	// Attempt is the one whose plane it is, as Start counts them: what is still under way
	// of an older one is nobody's.
	Attempt int
	Message exchange.Message
}
