package wire

import (
	"time"

	"gorun/launcher/internal/spec"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// MPI is what a node needs to serve MPI's start-up protocols to its ranks.
type MPI struct {
	// Offered reports that ranks find servers of PMI and PMIx. Only is the one protocol that these serve, "PMI-1",
	// "PMI-2" or "PMIx"; "": all of them.
	Offered bool
	Only    string
	// PMIPort makes ranks connect to a port of their node for PMI, instead of inheriting a connection.
	PMIPort bool
	// Why is the reason for serving none, with a hint, for the user.
	Why string
	// Node is this node's number, NumRanks the number of ranks of the job.
	Node, NumRanks int
	// Worlds are all of the job. EncodedWorlds, the result of EncodeWorlds, replaces them in a frame: every node gets all
	// ranks, and they are encoded once.
	Worlds        []world.World
	EncodedWorlds []byte `json:"-"`
}

// MPIEvent is an event of MPI that the head decides about: a rank aborted, or failed by a rule of its own, or ranks
// wait for one without end. Ranks have their numbers in the job.
type MPIEvent struct {
	Rank  int // that aborted
	Abort *spec.MPIAbort
	Stuck *spec.MPIStuck
	At    time.Time
}

// EncodeWorlds returns MPI.EncodedWorlds.
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

// Exchange carries a message of the exchange plane, in either direction.
type Exchange struct {
	// Attempt is that of the plane, as in Start: late messages of an earlier one are dropped.
	Attempt int
	Message exchange.Message
}
