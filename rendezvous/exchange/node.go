package exchange

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"gorun/rendezvous/world"
)

// Node is one node's end of the exchange. What concerns this node alone is never sent.
//
// Its methods do not wait. Each callback is called exactly once, one after the other, on a goroutine of the Node's own
// and never before the method has returned: a callback may call the Node and take locks that the caller held, but must
// not wait for another callback.
type Node struct {
	number    int
	send      func(*Message) error
	callbacks callbacks

	// sending orders messages: the hub learns of exited ranks before fences that are entered later.
	sending sync.Mutex

	mu          sync.Mutex
	closed      error // the reason, once closed
	fences      map[string]*nodeFence
	requests    map[int]func([]byte, error)
	lastRequest int
	services    map[string]service
	exited      []world.Proc // not reported to the hub yet
	watched     bool         // the hub wants reports at once
}

// nodeFence is a fence that this node has entered.
type nodeFence struct {
	nodes int
	blobs [][]byte // received so far
	done  func([][]byte, error)
}

// NewNode returns the end of the given node. send carries a message to the hub, in the order of its calls; it must
// neither wait, nor call the Node, nor keep the message.
func NewNode(node int, send func(*Message) error) *Node {
	return &Node{
		number: node, send: send,
		fences: map[string]*nodeFence{}, requests: map[int]func([]byte, error){}, services: map[string]service{},
	}
}

// Number returns this node's number.
func (n *Node) Number() int { return n.number }

// Fence enters a fence. When all of f.Nodes have entered a fence with the same ID, done gets the blob of each, in the
// order of f.Nodes; an empty one may be nil. done may keep the blobs, but not change them.
//
// The error is an [*ExitedError] if a member exited before it entered, [ErrWithdrawn] if a node has withdrawn,
// [ErrNodeLost] if one is lost, [ErrClosed] if the job ends, [ErrRefused] if the hub has no room, and otherwise says
// why this node cannot enter.
func (n *Node) Fence(f Fence, done func(blobs [][]byte, err error)) {
	err := n.check(&f)
	n.mu.Lock()
	switch {
	case err != nil:
	case n.closed != nil:
		err = n.closed
	case n.fences[f.ID] != nil:
		err = errors.New("exchange: the fence is already in progress")
	case len(f.Nodes) > 1:
		n.fences[f.ID] = &nodeFence{nodes: len(f.Nodes), done: done}
	}
	n.mu.Unlock()
	switch {
	case err != nil:
		n.callbacks.add(func() { done(nil, err) })
	case len(f.Nodes) == 1:
		n.callbacks.add(func() { done([][]byte{f.Blob}, nil) })
	default:
		m := &Message{Kind: Enter, ID: f.ID, Nodes: f.Nodes, Members: f.Members, Blobs: [][]byte{f.Blob}}
		if err := n.transmit(m); err != nil {
			n.failFence(f.ID, err)
		}
	}
}

// check rejects what the hub would reject, without sending it.
func (n *Node) check(f *Fence) error {
	if _, here := slices.BinarySearch(f.Nodes, n.number); !here || !ascending(f.Nodes) {
		return fmt.Errorf("exchange: a fence of node %d names nodes %v: they must ascend and include it",
			n.number, f.Nodes)
	}
	if len(f.Blob) > MaxBlob {
		return errTooLong("a part in a fence", len(f.Blob), MaxBlob)
	}
	if len(f.ID) > maxText {
		return errTooLong("the name of a fence", len(f.ID), maxText)
	}
	return nil
}

// Withdraw ends this node's wait in a fence that it has entered, or reports that its members no longer wait for each
// other and will not enter. Unless the fence is complete by then, all nodes that have entered get [ErrWithdrawn]; nodes
// that enter later wait for this one to enter again.
func (n *Node) Withdraw(f Fence, entered bool) {
	n.mu.Lock()
	over := n.closed != nil || entered && n.fences[f.ID] == nil
	n.mu.Unlock()
	if len(f.Nodes) > 1 && !over {
		_ = n.transmit(&Message{Kind: Withdraw, ID: f.ID, Entered: entered}) // a lost hub waits for no one
	}
}

func ascending(list []int) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

// RankExited reports the exit of a rank of this node. Fences that need it, have members on other nodes and were not
// entered by this node will never complete.
func (n *Node) RankExited(p world.Proc) {
	n.mu.Lock()
	n.exited = append(n.exited, p)
	watched := n.watched
	n.mu.Unlock()
	if watched {
		_ = n.transmit(nil) // a lost hub waits for no one
	}
}

// transmit reports exited ranks to the hub, and then sends m unless it is nil.
func (n *Node) transmit(m *Message) error {
	n.sending.Lock()
	defer n.sending.Unlock()
	n.mu.Lock()
	exited := n.exited
	if n.exited = nil; n.closed != nil {
		exited = nil
	}
	n.mu.Unlock()
	if len(exited) > 0 {
		if err := n.send(&Message{Kind: Exited, Members: exited}); err != nil {
			return err
		}
	}
	if m == nil {
		return nil
	}
	return n.send(m)
}

// Request has a service of another node, or of the [Head], answer body. The error is the service's, [ErrNodeLost] if
// nothing more comes from that node, or [ErrClosed].
func (n *Node) Request(node int, name string, body []byte, done func(reply []byte, err error)) {
	if node == n.number && len(body) <= MaxBlob {
		n.serve(node, name, body, func(reply []byte, err error) { n.callbacks.add(func() { done(reply, err) }) })
		return
	}
	n.mu.Lock()
	err := n.closed
	if len(body) > MaxBlob {
		err = errTooLong("a request to "+name, len(body), MaxBlob)
	}
	n.lastRequest++
	number := n.lastRequest
	n.requests[number] = done
	n.mu.Unlock()
	if err == nil {
		err = n.transmit(&Message{
			Kind: Request, Number: number, From: n.number, To: node, Service: name, Blobs: [][]byte{body},
		})
	}
	if err != nil {
		n.finish(number, nil, err)
	}
}

// serve has a service of this node answer a request.
func (n *Node) serve(from int, name string, body []byte, reply func([]byte, error)) {
	var once sync.Once // whatever the service does
	replyOnce := func(body []byte, err error) { once.Do(func() { reply(body, err) }) }
	n.mu.Lock()
	answer, closed := n.services[name], n.closed
	n.mu.Unlock()
	n.callbacks.add(func() {
		switch {
		case closed != nil:
			replyOnce(nil, closed)
		case answer == nil:
			replyOnce(nil, errNoService(name, n.number))
		default:
			answer(from, body, replyOnce)
		}
	})
}

// Serve has answer serve the requests that name this service of the node. body is valid until answer returns; reply may
// be called later.
func (n *Node) Serve(name string, answer func(from int, body []byte, reply func(body []byte, err error))) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services[name] = answer
}

// Receive handles a message from the hub and keeps parts of m. It does not wait. Messages that make no sense are
// ignored.
func (n *Node) Receive(m *Message) {
	switch m.Kind {
	case Merged:
		n.merged(m)
	case Failed:
		n.failFence(m.ID, failure(m))
	case Request:
		n.serve(m.From, m.Service, m.body(), func(body []byte, err error) { _ = n.transmit(replyTo(m, body, err)) })
	case Reply:
		n.finish(m.Number, m.body(), replyError(m))
	case Watch:
		n.mu.Lock()
		n.watched = true
		n.mu.Unlock()
		_ = n.transmit(nil)
	}
}

// merged adds a piece of a fence's blobs, and ends the fence with the last one.
func (n *Node) merged(m *Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.fences[m.ID]
	if f == nil || m.First != len(f.blobs) || len(f.blobs)+len(m.Blobs) > f.nodes {
		return
	}
	if f.blobs = append(f.blobs, m.Blobs...); !m.Last {
		return
	}
	delete(n.fences, m.ID)
	blobs, err := f.blobs, error(nil)
	if len(blobs) != f.nodes {
		blobs, err = nil, fmt.Errorf("exchange: a fence of %d nodes returned %d parts", f.nodes, len(blobs))
	}
	n.callbacks.add(func() { f.done(blobs, err) })
}

func (n *Node) failFence(id string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.fences[id]; f != nil {
		delete(n.fences, id)
		n.callbacks.add(func() { f.done(nil, err) })
	}
}

func (n *Node) finish(number int, reply []byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if done := n.requests[number]; done != nil {
		delete(n.requests, number)
		if err != nil {
			reply = nil
		}
		n.callbacks.add(func() { done(reply, err) })
	}
}

// Close fails everything in progress and every later call with err, or with [ErrClosed] if err is nil.
func (n *Node) Close(err error) {
	if err == nil {
		err = ErrClosed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed != nil {
		return
	}
	n.closed = err
	for id, f := range n.fences {
		delete(n.fences, id)
		n.callbacks.add(func() { f.done(nil, err) })
	}
	for number, done := range n.requests {
		delete(n.requests, number)
		n.callbacks.add(func() { done(nil, err) })
	}
}

// callbacks runs functions one after the other, on a goroutine that lives while there are any.
type callbacks struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

func (c *callbacks) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, f)
	if !c.running {
		c.running = true
		go c.run()
	}
}

func (c *callbacks) run() {
	for {
		c.mu.Lock()
		list := c.waiting
		if c.waiting = nil; len(list) == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		for _, f := range list {
			f()
		}
	}
}
