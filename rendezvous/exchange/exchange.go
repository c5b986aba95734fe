// Package exchange connects the MPI servers of a job's nodes: they meet in fences, send each other requests, and share
// the names that ranks publish.
//
// The nodes form a star around the launcher, the head. A fence costs each node one message up and one down, however
// many ranks it has. [Node] is a leaf of the star and [Hub] its center. Neither owns a connection or a long-running
// goroutine: the caller carries their [Message] values, in order, between each node and the hub.
//
//	node                                      hub
//	  | -- Enter{fence, blob} -------------> |   when all members on this node have entered
//	  | <- Merged{blobs} ------------------- |   when all nodes have entered, in pieces if large
//	  | <- Failed{fence, missing} ---------- |   or when that has become impossible
//	  | -- Request{number, to, body} ------> | -- Request{number, from, body} --> the other node
//	  | <- Reply{number, body} ------------- | <- Reply{number, from, body} -----
//	  | <- Watch --------------------------- |   when the hub needs to know which ranks exit
//	  | -- Exited{ranks} ------------------> |   from then on
//	  | -- Withdraw{fence} ----------------> |   Failed follows, unless Merged was on its way
package exchange

import (
	"errors"
	"fmt"

	"gorun/rendezvous/world"
)

// Head is the node number of the hub itself, which keeps the published names.
const Head = -1

// Fence is one node's part in a fence.
type Fence struct {
	// ID differs from that of every other fence in progress.
	ID string
	// Nodes are the nodes of all members, ascending, including this one.
	Nodes []int
	// Members are the ranks that meet. world.AllRanks means a whole world.
	Members []world.Proc
	// Blob is what this node contributes, at most MaxBlob bytes.
	Blob []byte
}

// ExitedError is the error of a fence that can never complete because a member exited before it entered.
type ExitedError struct{ Missing world.Proc }

// The name of the world is left out: knowing it is enough to act as one of its ranks.
func (e *ExitedError) Error() string {
	return fmt.Sprintf("rank %d exited while other ranks wait for it", e.Missing.Rank)
}

// ErrWithdrawn is the error of a fence that one of its nodes has withdrawn from.
var ErrWithdrawn = errors.New("a node has withdrawn from the fence")

// ErrNodeLost is the error of a fence or request that needs a lost node. Whoever runs the job knows of the loss and
// decides whether the job ends; servers must not blame a rank for it.
var ErrNodeLost = errors.New("a node is lost")

// ErrRefused is the error of a fence that exceeds the hub's limits. All nodes of the fence get it.
var ErrRefused = errors.New("the fence exceeds a limit")

// ErrClosed is the error of everything in progress when the job ends.
var ErrClosed = errors.New("the job ends")

// kindError is an error with a text of its own that [errors.Is] matches to kind.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }
