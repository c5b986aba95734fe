// Package exchange is how the servers of a job's nodes act together: fences, at which each
// node gives a piece and all get all pieces; questions that one node answers another; and
// names that one rank publishes and others look up.
//
// Nodes are the leaves of a star whose middle is the head. A fence costs each node one
// message up and one down, whatever the number of its ranks. [Node] is a leaf, [Hub] the
// middle; neither has a connection, a goroutine that stays or a file of its own: whoever
// connects them carries their [Message]s, in order between a node and the hub.
//
//	node                                  hub
//	  | -- Come{fence, blob} -----------> |   once all members of this node have come
//	  | <- Merged{blobs} ---------------- |   once all nodes have, in pieces if it is much
//	  | <- Failed{fence, missing} ------- |   or never
//	  | -- Ask{number, to, body} -------> | -- Ask{number, from, body} --> the other node
//	  | <- Answer{number, body} --------- | <- Answer{number, from, body} -
//	  | <- Watch ------------------------ |   once somebody waits for other nodes' ranks
//	  | -- Left{ranks} -----------------> |   those that have ended, from then on
//	  | -- Quit{fence} -----------------> |   it waits no longer: Failed comes, or Merged was under way
package exchange

import (
	"errors"
	"fmt"

	"gorun/rendezvous/world"
)

// Plane is a node's end. Its methods return without waiting; the functions given are
// called once each, never before the method has returned to its caller's goroutine, one
// after the other on a goroutine of the plane's: they may call the plane, and take locks
// that the caller held, but must not wait for what only another of them brings.
type Plane interface {
	// Node is this node's number.
	Node() int
	// Fence waits until all of f.Nodes have come, with the same ID, and gives done each
	// one's blob, in the order of f.Nodes; an empty one may be nil. With this node alone
	// that is at once. The error is a *LeftError where a member has left that had not
	// come, ErrGivenUp where a node has given it up, ErrNodeLost where one is lost, ErrClosed
	// where the job ends, ErrRefused where the hub has no room, else why this node does not take
	// it. Blobs are done's to keep, and not to change.
	Fence(f Fence, done func(blobs [][]byte, err error))
	// GiveUp says that this node, which came, does not wait in a fence any longer, or that
	// its members have stopped waiting for each other before it came. Unless the fence was
	// over by then, done of all nodes that have come gets ErrGivenUp; those that come later
	// wait for this node to come again, too.
	GiveUp(f Fence, came bool)
	// Leave says that a rank of this node has ended: fences that it is a member of, that
	// have members on other nodes, too, and that this node has not come to will never be
	// complete.
	Leave(p world.Proc)
	// Ask has the service of that name at a node, or at the Head, answer. The error is that of
	// the service, ErrNodeLost where the node says nothing more, or ErrClosed.
	Ask(node int, service string, body []byte, done func(answer []byte, err error))
	// Serve answers what other nodes ask of the service of that name here. body is valid
	// until answer returns; reply may be called later.
	Serve(service string, answer func(from int, body []byte, reply func(answer []byte, err error)))
}

// Head is the number of the node in the middle, which has the names.
const Head = -1

// Fence is one node's part in a fence.
type Fence struct {
	// ID is unlike that of any other fence of the job that is under way.
	ID string
	// Nodes are those of the members, in ascending order, this one among them.
	Nodes []int
	// Members are the ranks that come together; world.AllRanks stands for a whole world.
	Members []world.Proc
	Blob    []byte
}

// LeftError is a fence that can never be complete.
type LeftError struct{ Missing world.Proc }

func (e *LeftError) Error() string {
	// who knows its world's name may act as it
	return fmt.Sprintf("rank %d, for which others wait, has ended", e.Missing.Rank)
}

// ErrGivenUp is the error of a fence that one of its nodes does not wait for any longer.
var ErrGivenUp = errors.New("a node has given up the fence")

// ErrNodeLost is the error of a fence, or of a question, for which a node is missing that
// says nothing more. Whoever runs the job knows of the node, and ends the job or does not: a
// server blames none of its ranks for it.
var ErrNodeLost = errors.New("a node is lost")

// ErrRefused is the error of a fence that the hub has no room for. All of its nodes hear of
// it, those that come later, too.
var ErrRefused = errors.New("the fence is refused")

// ErrClosed is the error of everything that was under way when the job ended.
var ErrClosed = errors.New("the job ends")
