package exchange

import (
	"errors"
	"fmt"
	"sync"

	"gorun/rendezvous/world"
)

// Hub is the center of the star, next to the launcher. It merges what nodes contribute to fences, forwards their
// requests, and answers requests to [Head]. Its methods may be called on any goroutine and do not wait.
type Hub struct {
	numNodes int
	send     func(to []int, m *Message)

	mu          sync.Mutex
	closed      bool
	watching    bool // nodes report exited ranks
	services    map[string]service
	onExit      []func(world.Proc)
	lost        map[int]error          // nodes from which nothing more comes, with the reason
	full        map[int]error          // nodes whose last part exceeded a limit, until something of theirs is released
	exited      map[string]map[int]int // world → rank → the node that reported its exit
	numExited   map[int]int            // by that node
	fences      map[string]*hubFence
	withdrawn   map[string]*withdrawnFence
	requests    map[requestID]*pendingRequest
	usage       map[account]load
	lastRequest int // number of the head's own last request
}

// service answers requests on the goroutine that calls it: it must not wait. body is valid until it returns; reply may
// be called later.
type service func(from int, body []byte, reply func(body []byte, err error))

type requestID struct{ from, number int }

type pendingRequest struct {
	to    int
	bytes int
	reply func([]byte, error) // nil unless the head itself sent the request
}

// account is what the hub keeps of one kind for one node: Enter for parts of fences, Withdraw for fences that it
// withdrew from, Request for its requests.
type account struct {
	node int
	kind Kind
}

type load struct{ count, bytes int }

// NewHub returns the hub of numNodes nodes, numbered from 0. send carries a message to nodes, in the order of its
// calls; it must neither wait nor call the Hub. A message to many nodes is best encoded once.
func NewHub(numNodes int, send func(to []int, m *Message)) *Hub {
	return &Hub{
		numNodes: numNodes, send: send, services: map[string]service{}, lost: map[int]error{}, full: map[int]error{},
		exited: map[string]map[int]int{}, numExited: map[int]int{}, fences: map[string]*hubFence{},
		withdrawn: map[string]*withdrawnFence{}, requests: map[requestID]*pendingRequest{}, usage: map[account]load{},
	}
}

// Serve has answer serve the requests to [Head] that name this service, on the goroutine that called Receive: it must
// not wait. body is valid until answer returns; reply may be called later.
func (h *Hub) Serve(name string, answer func(from int, body []byte, reply func(body []byte, err error))) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.services[name] = answer
}

// OnExit calls f for each rank that is known to have exited, and from now on for each that exits. f is called without
// locks, on any goroutine, and must not wait.
func (h *Hub) OnExit(f func(p world.Proc)) {
	var known []world.Proc
	h.locked(func() {
		h.onExit = append(h.onExit, f)
		for name, ranks := range h.exited {
			for rank := range ranks {
				known = append(known, world.Proc{World: name, Rank: rank})
			}
		}
		h.watch()
	})
	for _, p := range known {
		f(p)
	}
}

// Receive handles a message from a node and keeps parts of m. Calls for one node must not overlap. The node is not
// trusted: an invalid message is ignored or answered with an error, ends no other node's fence, and cannot make the hub
// keep more than the limits.
func (h *Hub) Receive(from int, m *Message) {
	if from < 0 || from >= h.numNodes {
		return
	}
	switch m.Kind {
	case Enter:
		h.locked(func() { h.enter(from, m) })
	case Withdraw:
		h.locked(func() { h.withdraw(from, m) })
	case Exited:
		h.ranksExited(from, m.Members)
	case Request:
		h.forward(from, m)
	case Reply: // only the hub decides that a node is lost
		h.locked(func() { h.finish(requestID{m.From, m.Number}, from, m.body(), replyError(&Message{Error: m.Error})) })
	}
}

// locked calls f with the lock held, unless the hub is closed.
func (h *Hub) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		f()
	}
}

// Close ends the exchange: nothing is sent or kept from then on.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, r := range h.requests {
		if r.reply != nil {
			go r.reply(nil, ErrClosed)
		}
	}
	clear(h.fences)
	clear(h.withdrawn)
	clear(h.requests)
	clear(h.exited)
	clear(h.usage)
}

// reserve charges an item to an account and reports whether its limits allow it.
func (h *Hub) reserve(a account, bytes int) bool {
	l := h.usage[a]
	if l.count >= maxUnderwayCount || l.bytes+bytes > maxUnderway {
		return false
	}
	h.usage[a] = load{l.count + 1, l.bytes + bytes}
	return true
}

func (h *Hub) release(a account, bytes int) {
	l := h.usage[a]
	h.usage[a] = load{l.count - 1, l.bytes - bytes}
	if a.kind == Enter {
		delete(h.full, a.node)
	}
}

// forward passes a request on, or has a service of the head answer it.
func (h *Hub) forward(from int, m *Message) {
	m.From = from
	var answer service
	id := requestID{from, m.Number}
	h.locked(func() {
		refuse := func(err error) { h.send([]int{from}, replyTo(m, nil, err)) }
		bytes := len(m.body()) + len(m.Service)
		switch {
		case m.To != Head && (m.To < 0 || m.To >= h.numNodes):
			refuse(errNoNode(m.To))
		case h.lost[m.To] != nil:
			refuse(h.lost[m.To])
		case m.To == Head && h.services[m.Service] == nil:
			refuse(errNoService(m.Service, Head))
		case h.requests[id] != nil:
		case !h.reserve(account{from, Request}, bytes):
			refuse(errors.New("exchange: too many requests are in progress"))
		default:
			h.requests[id] = &pendingRequest{to: m.To, bytes: bytes}
			if m.To != Head {
				h.send([]int{m.To}, m)
				return
			}
			answer = h.services[m.Service]
		}
	})
	if answer != nil {
		answer(from, m.body(), func(body []byte, err error) { h.locked(func() { h.finish(id, Head, body, err) }) })
	}
}

func errNoNode(node int) error { return fmt.Errorf("exchange: node %d does not exist", node) }

func errNoService(name string, node int) error {
	if node == Head {
		return fmt.Errorf("exchange: the launcher has no service %q", name)
	}
	return fmt.Errorf("exchange: node %d has no service %q", node, name)
}

// Request sends a request of the head to a service of a node. done is called once, on any goroutine.
func (h *Hub) Request(node int, service string, body []byte, done func(reply []byte, err error)) {
	refused := ErrClosed
	h.locked(func() {
		if refused = h.lost[node]; node < 0 || node >= h.numNodes {
			refused = errNoNode(node)
		}
		if refused != nil {
			return
		}
		h.lastRequest++
		h.requests[requestID{Head, h.lastRequest}] = &pendingRequest{to: node, reply: done}
		h.send([]int{node}, &Message{
			Kind: Request, Number: h.lastRequest, From: Head, To: node, Service: service, Blobs: [][]byte{body},
		})
	})
	if refused != nil {
		done(nil, refused)
	}
}

// finish replies to a request that went to node to. Replies from elsewhere and second replies are ignored.
func (h *Hub) finish(id requestID, to int, body []byte, err error) {
	r := h.requests[id]
	if r == nil || r.to != to {
		return
	}
	h.drop(id, r)
	if r.reply != nil {
		go r.reply(body, err)
		return
	}
	h.send([]int{id.from}, replyTo(&Message{Number: id.number, From: id.from, To: to}, body, err))
}

func (h *Hub) drop(id requestID, r *pendingRequest) {
	if delete(h.requests, id); id.from != Head {
		h.release(account{id.from, Request}, r.bytes)
	}
}
