package exchange

import (
	"errors"
	"fmt"

	"gorun/rendezvous/world"
)

// Message is what a node and the hub send each other. Kind says which fields are used.
type Message struct {
	Kind Kind
	// ID is the fence's: Enter, Merged, Failed, Withdraw.
	ID string
	// Entered reports that the node had entered the fence: Withdraw.
	Entered bool
	// Nodes and Members are the fence's in Enter. Members are the exited ranks in Exited; in Failed the rank that others
	// wait for, none if a node is missing.
	Nodes   []int
	Members []world.Proc
	// Blobs is the node's own in Enter. In Merged they belong to the fence's nodes from index First on, and Last marks
	// the final piece. In Request and Reply the only one is the body.
	Blobs [][]byte
	First int
	Last  bool
	// Number identifies a request among those of the node that sent it: Request, Reply.
	Number int
	// From sends the request and To answers it: Request, Reply.
	From, To int
	// Service names the service: Request.
	Service string
	// Error is why there is no result, "" if there is one: Reply, Failed.
	Error string
	// Lost reports that Error is an ErrNodeLost: Reply, Failed.
	Lost bool
}

// Kind tells messages apart. The numbers are fixed.
type Kind uint8

// The kinds of messages.
const (
	Enter    Kind = 1 // a node's part in a fence
	Merged   Kind = 2 // the parts of all nodes, or a piece of them
	Failed   Kind = 3 // the fence will never complete
	Request  Kind = 4
	Reply    Kind = 5
	Watch    Kind = 6 // report exited ranks from now on
	Exited   Kind = 7
	Withdraw Kind = 8 // a node no longer waits in a fence
)

var kindNames = [...]string{
	Enter: "enter", Merged: "merged", Failed: "failed", Request: "request", Reply: "reply", Watch: "watch",
	Exited: "exited", Withdraw: "withdraw",
}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// body returns the body of a request or reply.
func (m *Message) body() []byte {
	if len(m.Blobs) == 0 {
		return nil
	}
	return m.Blobs[0]
}

// cost estimates the memory that the hub needs for a node's part, in bytes.
func (m *Message) cost() int {
	const member, text = 40, 64
	names := 0
	for _, p := range m.Members {
		names += len(p.World)
	}
	return len(m.body()) + len(m.ID) + text + len(m.Nodes)*8 + len(m.Members)*member + names
}

// replyTo answers request m.
func replyTo(m *Message, body []byte, err error) *Message {
	r := &Message{Kind: Reply, Number: m.Number, From: m.From, To: m.To}
	if err == nil && len(body) > MaxBlob {
		err = errTooLong("an answer of "+m.Service, len(body), MaxBlob)
	}
	if err == nil {
		r.Blobs = [][]byte{body}
		return r
	}
	if r.Error = err.Error(); r.Error == "" {
		r.Error = "no answer"
	}
	r.Lost = errors.Is(err, ErrNodeLost)
	return r
}

// failed reports the end of a fence that will never complete.
func failed(id string, err error) *Message {
	if exited, ok := errors.AsType[*ExitedError](err); ok {
		return &Message{Kind: Failed, ID: id, Members: []world.Proc{exited.Missing}}
	}
	return &Message{Kind: Failed, ID: id, Error: err.Error(), Lost: errors.Is(err, ErrNodeLost)}
}

// failure returns the error that a Failed message carries.
func failure(m *Message) error {
	if len(m.Members) > 0 {
		return &ExitedError{m.Members[0]}
	}
	switch {
	case m.Lost:
		return &kindError{ErrNodeLost, m.Error}
	case m.Error == "":
		return ErrClosed
	case m.Error == ErrWithdrawn.Error():
		return ErrWithdrawn
	}
	return &kindError{ErrRefused, m.Error}
}

// replyError returns the error that a Reply carries, nil if it has a result.
func replyError(m *Message) error {
	switch {
	case m.Lost:
		return &kindError{ErrNodeLost, m.Error}
	case m.Error == "":
		return nil
	}
	return errors.New(m.Error)
}

// Limits, far above what starting an MPI program needs.
const (
	// MaxBlob bounds a node's part in a fence, a request and a reply, in bytes.
	MaxBlob = 32 << 20
	// maxPiece bounds one Merged message, in bytes, unless a single blob is larger: heartbeats share the connection.
	maxPiece = 1 << 20
	// maxUnderway and maxUnderwayCount bound what the hub keeps for each node, in bytes and in number: fences that other
	// nodes have not entered and, counted apart, requests without a reply.
	maxUnderway      = 256 << 20
	maxUnderwayCount = 1 << 16
	// maxText bounds the ID of a fence and the name of a service, in bytes.
	maxText = 4 << 10
	// maxMembers bounds the ranks that one fence names, and the exited ranks that the hub remembers of one node.
	maxMembers = 1 << 20
)

func errTooLong(what string, size, most int) error {
	return fmt.Errorf("exchange: %s of %d bytes: at most %d are allowed", what, size, most)
}
