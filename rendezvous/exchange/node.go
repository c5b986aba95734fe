package exchange

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"gorun/rendezvous/world"
)

// Node is a node's end, which says what it has to say by one function and hears by
// Receive. What concerns this node alone never leaves it.
type Node struct {
	number int
	send   func(*Message) error
	calls  calls

	// sending keeps the order of what is sent: who has left is said before fences that were
	// come to later.
	sending sync.Mutex

	mu       sync.Mutex
	closed   error // why, once it is
	fences   map[string]*nodeFence
	asked    map[int]func([]byte, error)
	lastAsk  int // the number of the last question
	services map[string]service
	left     []world.Proc // what the hub was not told yet
	watched  bool         // it wants to hear at once
}

// service answers questions.
type service func(from int, body []byte, reply func(answer []byte, err error))

// nodeFence is one that this node has come to.
type nodeFence struct {
	nodes int
	blobs [][]byte // those that have come
	done  func([][]byte, error)
}

var _ Plane = (*Node)(nil)

// NewNode is the end of the node of that number. send carries a message to the hub, in the
// order of the calls; it neither waits nor calls the Node, and keeps nothing of it.
func NewNode(node int, send func(*Message) error) *Node {
	return &Node{
		number: node, send: send,
		fences: map[string]*nodeFence{}, asked: map[int]func([]byte, error){}, services: map[string]service{},
	}
}

// Node is this node's number.
func (n *Node) Node() int { return n.number }

// Fence implements Plane.
func (n *Node) Fence(f Fence, done func(blobs [][]byte, err error)) {
	err := n.check(&f)
	n.mu.Lock()
	switch {
	case err != nil:
	case n.closed != nil:
		err = n.closed
	case n.fences[f.ID] != nil:
		err = errors.New("exchange: the fence is under way already")
	case len(f.Nodes) > 1:
		n.fences[f.ID] = &nodeFence{nodes: len(f.Nodes), done: done}
	}
	n.mu.Unlock()
	switch {
	case err != nil:
		n.calls.add(func() { done(nil, err) })
	case len(f.Nodes) == 1:
		n.calls.add(func() { done([][]byte{f.Blob}, nil) })
	default:
		m := &Message{Kind: Come, ID: f.ID, Nodes: f.Nodes, Members: f.Members, Blobs: [][]byte{f.Blob}}
		if err := n.say(m); err != nil {
			n.failFence(f.ID, err)
		}
	}
}

// check refuses what no server of ours may ask for.
func (n *Node) check(f *Fence) error {
	if _, here := slices.BinarySearch(f.Nodes, n.number); !here || !ascending(f.Nodes) {
		return fmt.Errorf("exchange: a fence of node %d names nodes %v: they are to ascend, and it is to be among them",
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

// GiveUp implements Plane.
func (n *Node) GiveUp(f Fence, came bool) {
	n.mu.Lock()
	over := n.closed != nil || came && n.fences[f.ID] == nil
	n.mu.Unlock()
	if len(f.Nodes) > 1 && !over {
		_ = n.say(&Message{Kind: Quit, ID: f.ID, Came: came}) // a hub that is gone waits for nobody
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

// Leave implements Plane.
func (n *Node) Leave(p world.Proc) {
	n.mu.Lock()
	n.left = append(n.left, p)
	watched := n.watched
	n.mu.Unlock()
	if watched {
		_ = n.say(nil) // a hub that is gone waits for nobody
	}
}

// say sends who has left meanwhile, where the hub may care, and then m, if it is one.
func (n *Node) say(m *Message) error {
	n.sending.Lock()
	defer n.sending.Unlock()
	n.mu.Lock()
	left := n.left
	if n.left = nil; n.closed != nil {
		left = nil
	}
	n.mu.Unlock()
	if len(left) > 0 {
		if err := n.send(&Message{Kind: Left, Members: left}); err != nil {
			return err
		}
	}
	if m == nil {
		return nil
	}
	return n.send(m)
}

// Ask implements Plane.
func (n *Node) Ask(node int, name string, body []byte, done func(answer []byte, err error)) {
	if node == n.number && len(body) <= MaxBlob {
		n.serve(node, name, body, func(answer []byte, err error) { n.calls.add(func() { done(answer, err) }) })
		return
	}
	n.mu.Lock()
	err := n.closed
	if len(body) > MaxBlob {
		err = errTooLong("a question to "+name, len(body), MaxBlob)
	}
	n.lastAsk++
	number := n.lastAsk
	n.asked[number] = done
	n.mu.Unlock()
	if err == nil {
		err = n.say(&Message{
			Kind: Ask, Number: number, From: n.number, To: node, Service: name,
			Blobs: [][]byte{body},
		})
	}
	if err != nil {
		n.answered(number, nil, err)
	}
}

// serve has a service of this node answer a question.
func (n *Node) serve(from int, name string, body []byte, reply func([]byte, error)) {
	reply = once(reply)
	n.mu.Lock()
	answer, closed := n.services[name], n.closed
	n.mu.Unlock()
	n.calls.add(func() {
		switch {
		case closed != nil:
			reply(nil, closed)
		case answer == nil:
			reply(nil, noService(name, n.number))
		default:
			answer(from, body, reply)
		}
	})
}

func noService(name string, node int) error {
	if node == Head {
		return fmt.Errorf("exchange: the head has no service %q", name)
	}
	return fmt.Errorf("exchange: node %d has no service %q", node, name)
}

// once lets a service answer a question once, whatever it does.
func once(reply func([]byte, error)) func([]byte, error) {
	var o sync.Once
	return func(answer []byte, err error) { o.Do(func() { reply(answer, err) }) }
}

// Serve implements Plane.
func (n *Node) Serve(name string, answer func(from int, body []byte, reply func(answer []byte, err error))) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services[name] = answer
}

// Receive takes what the hub says, and keeps what is in m. It does not wait. What makes no
// sense is ignored: a later hub may say more.
func (n *Node) Receive(m *Message) {
	switch m.Kind {
	case Merged:
		n.merged(m)
	case Failed:
		n.failFence(m.ID, failure(m))
	case Ask:
		n.serve(m.From, m.Service, m.body(), func(answer []byte, err error) { _ = n.say(answerTo(m, answer, err)) })
	case Answer:
		if err := errorOf(m); err != nil {
			n.answered(m.Number, nil, err)
		} else {
			n.answered(m.Number, m.body(), nil)
		}
	case Watch:
		n.mu.Lock()
		n.watched = true
		n.mu.Unlock()
		_ = n.say(nil)
	}
}

// body is that of a question or an answer.
func (m *Message) body() []byte {
	if len(m.Blobs) == 0 {
		return nil
	}
	return m.Blobs[0]
}

// failure is why a fence will never be complete.
func failure(m *Message) error {
	if len(m.Members) > 0 {
		return &LeftError{m.Members[0]}
	}
	switch err := errorOf(m); {
	case err == nil:
		return ErrClosed
	case err == ErrGivenUp || errors.Is(err, ErrNodeLost):
		return err
	}
	return refusedError(m.Error)
}

// refusedError is an ErrRefused that says why.
type refusedError string

func (e refusedError) Error() string { return string(e) }

func (e refusedError) Is(target error) bool { return target == ErrRefused }

// merged takes a piece of a fence's blobs.
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
		blobs, err = nil, fmt.Errorf("exchange: a fence of %d nodes came back with %d parts", f.nodes, len(blobs))
	}
	n.calls.add(func() { f.done(blobs, err) })
}

func (n *Node) failFence(id string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.fences[id]; f != nil {
		delete(n.fences, id)
		n.calls.add(func() { f.done(nil, err) })
	}
}

func (n *Node) answered(number int, answer []byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if done := n.asked[number]; done != nil {
		delete(n.asked, number)
		n.calls.add(func() { done(answer, err) })
	}
}

// answerTo is the answer to question m.
func answerTo(m *Message, answer []byte, err error) *Message {
	a := &Message{Kind: Answer, Number: m.Number, From: m.From, To: m.To}
	if err == nil && len(answer) > MaxBlob {
		err = errTooLong("an answer of "+m.Service, len(answer), MaxBlob)
	}
	if err != nil {
		if a.Error = err.Error(); a.Error == "" {
			a.Error = "no answer"
		}
		a.Lost = errors.Is(err, ErrNodeLost)
		return a
	}
	a.Blobs = [][]byte{answer}
	return a
}

// Close fails all that is under way, and all that is asked for from then on, with err; nil
// is ErrClosed.
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
		n.calls.add(func() { f.done(nil, err) })
	}
	for number, done := range n.asked {
		delete(n.asked, number)
		n.calls.add(func() { done(nil, err) })
	}
}

// calls runs functions one after the other on a goroutine that is there while there are any.
type calls struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

func (c *calls) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, f)
	if !c.running {
		c.running = true
		go c.run()
	}
}

func (c *calls) run() {
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
