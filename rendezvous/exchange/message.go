package exchange

import (
	"fmt"

	"gorun/rendezvous/world"
)

// Message is what a node and the hub say to each other. Which fields count depends on Kind.
type Message struct {
	Kind Kind
	// ID is that of a fence: Come, Merged, Failed, Quit.
	ID string
	// Came says that the node had come to the fence: Quit.
	Came bool
	// Nodes and Members are the fence's: Come. Members are those who have ended: Left; the
	// one for whom others wait in vain: Failed, none where a node is missing.
	Nodes   []int
	Members []world.Proc
	// Blobs is the node's own: Come; those of the fence's nodes, from index First on, the
	// final ones of them where Last is set: Merged. The body: Ask, Answer.
	Blobs [][]byte
	First int
	Last  bool
	// Number is one that the node which asks gave the question: Ask, Answer.
	Number int
	// From is who asks, To who is to answer: Ask, Answer.
	From, To int
	// Service is which one is asked: Ask.
	Service string
	// Error is why there is no answer: Answer, Failed; "": there is one.
	Error string
	// Lost says that Error is an ErrNodeLost: Answer, Failed of the hub.
	Lost bool
}

// Kind tells messages apart. The numbers are for ever.
type Kind uint8

// The kinds of messages.
const (
	Come   Kind = 1 // a node's part in a fence
	Merged Kind = 2 // all parts, or a piece of them
	Failed Kind = 3 // there will never be all parts
	Ask    Kind = 4
	Answer Kind = 5
	Watch  Kind = 6 // the hub wants to hear of those who leave
	Left   Kind = 7
	Quit   Kind = 8 // a node does not wait in a fence any longer
)

var kindNames = [...]string{
	Come: "come", Merged: "merged", Failed: "failed", Ask: "ask", Answer: "answer", Watch: "watch", Left: "left",
	Quit: "quit",
}

// String returns the kind's name, for messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Limits, far above what an MPI program's start needs.
const (
	// MaxBlob bounds a node's part in a fence, a question and an answer, in bytes.
	MaxBlob = 32 << 20
	// maxPiece bounds what of a fence is sent at once, in bytes, unless one blob alone is
	// more: heartbeats share the way.
	maxPiece = 1 << 20
	// maxUnderway bounds what the hub keeps for one node: parts of fences that others have
	// not come to, and, each for itself, questions without an answer, in bytes and in number.
	maxUnderway      = 256 << 20
	maxUnderwayCount = 1 << 16
	// maxRefused bounds the fences refused for one node that others have not come to.
	maxRefused = 1 << 12
	// maxText bounds the ID of a fence and the name of a service, in bytes.
	maxText = 4 << 10
	// maxMembers bounds the ranks that one fence names, and those that the hub remembers
	// to have left from one node.
	maxMembers = 1 << 20
)

// errTooLong is for what no server of ours has to say.
func errTooLong(what string, size, most int) error {
	return fmt.Errorf("exchange: %s of %d bytes: at most %d are passed on", what, size, most)
}
