package exchange

import (
	"errors"
	"fmt"
	"sync"

	"gorun/rendezvous/world"
)

// Hub is the middle, at the head: it merges what nodes bring to fences, passes questions
// on, and answers those to the Head.
type Hub struct {
	numNodes int
	send     func(to []int, m *Message)

	mu       sync.Mutex
	closed   bool
	watching bool // nodes were told to say who leaves
	services map[string]service
	onLeft   []func(world.Proc)
	absent   map[int]error          // nodes from which nothing more comes, and why
	gone     map[string]map[int]int // who has left: world, rank → node that said so
	numGone  map[int]int            // by that node
	fences   map[string]*hubFence
	asked    map[question]*underway
	refused  map[string]*refusedFence
	givenUp  map[string]*givenUp
	overfull map[int]error // nodes with too many even of those, and why
	kept     map[account]load
	lastAsk  int // the number of the last question that the head asked
}

// question names one that is under way.
type question struct{ from, number int }

// underway is what is known of a question.
type underway struct {
	to    int
	bytes int
	reply func([]byte, error) // of who asked at the head; nil: a node asked
}

// account is what the hub keeps for a node of one kind: parts of fences (Come), which one of
// them were refused (Failed), questions (Ask). One kind takes none of another's room.
type account struct {
	node int
	kind Kind
}

// load is how much that is.
type load struct{ count, bytes int }

// hubFence is one that some of its nodes have come to.
type hubFence struct {
	id      string
	nodes   []int
	members []world.Proc
	blobs   [][]byte
	came    []bool // by index of nodes
	costs   []int
	left    int // how many have not
}

// NewHub is the middle of that many nodes, which count from 0. send carries a message to
// nodes, in the order of the calls, and neither waits nor calls the
// Hub. One message may be for many nodes, and is then best encoded once.
func NewHub(numNodes int, send func(to []int, m *Message)) *Hub {
	return &Hub{
		numNodes: numNodes, send: send, services: map[string]service{}, absent: map[int]error{},
		gone: map[string]map[int]int{}, numGone: map[int]int{},
		fences: map[string]*hubFence{}, refused: map[string]*refusedFence{}, givenUp: map[string]*givenUp{},
		overfull: map[int]error{}, asked: map[question]*underway{}, kept: map[account]load{},
	}
}

// Serve answers what nodes ask of the Head's service of that name, on the goroutine that
// called Receive: answer must not wait. body is valid until it returns; reply may be called
// later.
func (h *Hub) Serve(name string, answer func(from int, body []byte, reply func(answer []byte, err error))) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.services[name] = answer
}

// OnLeft has f called for each rank that is known to have left, and asks nodes to say so.
// f is called with nothing held, must not wait, and may be called on any goroutine.
func (h *Hub) OnLeft(f func(p world.Proc)) {
	var known []world.Proc
	h.do(func() {
		h.onLeft = append(h.onLeft, f)
		for name, gone := range h.gone {
			for rank := range gone {
				known = append(known, world.Proc{World: name, Rank: rank})
			}
		}
		h.watch()
	})
	for _, p := range known {
		f(p)
	}
}

// Receive takes what a node says, and keeps what is in m. It does not wait. Calls for one
// node must not overlap. What makes no sense is ignored or answered by an error: one node
// cannot end another's fences, nor have more kept for it than is due.
func (h *Hub) Receive(from int, m *Message) {
	if from < 0 || from >= h.numNodes {
		return
	}
	switch m.Kind {
	case Come:
		h.do(func() { h.come(from, m) })
	case Quit:
		h.do(func() { h.quit(from, m) })
	case Left:
		h.hearLeft(from, m.Members)
	case Ask:
		h.ask(from, m)
	case Answer:
		var err error
		if m.Error != "" {
			err = errors.New(m.Error)
		}
		h.do(func() { h.settle(question{m.From, m.Number}, from, m.body(), err) })
	}
}

// do changes the state, and sends what follows.
func (h *Hub) do(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		change()
	}
}

// Close ends it: nothing is sent from then on, and nothing is kept.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, q := range h.asked {
		if q.reply != nil {
			go q.reply(nil, ErrClosed)
		}
	}
	clear(h.fences)
	clear(h.refused)
	clear(h.givenUp)
	clear(h.asked)
	clear(h.gone)
	clear(h.kept)
}

// keep counts what is kept, and reports whether that may be.
func (h *Hub) keep(a account, bytes int) bool {
	l, most := h.kept[a], maxUnderwayCount
	if a.kind == Failed {
		most = maxRefused
	}
	if l.count >= most || l.bytes+bytes > maxUnderway {
		return false
	}
	h.kept[a] = load{l.count + 1, l.bytes + bytes}
	return true
}

func (h *Hub) letGo(a account, bytes int) {
	l := h.kept[a]
	h.kept[a] = load{l.count - 1, l.bytes - bytes}
}

// ask passes a question on, or has a service of the head's answer it.
func (h *Hub) ask(from int, m *Message) {
	m.From = from
	var service service
	q := question{from, m.Number}
	h.do(func() {
		refuse := func(err error) { h.send([]int{from}, answerTo(m, nil, err)) }
		bytes := len(m.body()) + len(m.Service)
		switch {
		case m.To != Head && (m.To < 0 || m.To >= h.numNodes):
			refuse(errNoNode(m.To))
		case h.absent[m.To] != nil:
			refuse(h.absent[m.To])
		case m.To == Head && h.services[m.Service] == nil:
			refuse(noService(m.Service, Head))
		case h.asked[q] != nil:
		case !h.keep(account{from, Ask}, bytes):
			refuse(errors.New("exchange: too many questions are under way"))
		default:
			h.asked[q] = &underway{to: m.To, bytes: bytes}
			if m.To != Head {
				h.send([]int{m.To}, m)
				return
			}
			service = h.services[m.Service]
		}
	})
	if service != nil {
		service(from, m.body(), func(answer []byte, err error) { h.do(func() { h.settle(q, Head, answer, err) }) })
	}
}

func errNoNode(node int) error { return fmt.Errorf("exchange: there is no node %d", node) }

// Ask has a service of a node answer the head. done is called once, on any goroutine.
func (h *Hub) Ask(node int, service string, body []byte, done func(answer []byte, err error)) {
	refused := ErrClosed
	h.do(func() {
		if refused = h.absent[node]; node < 0 || node >= h.numNodes {
			refused = errNoNode(node)
		}
		if refused != nil {
			return
		}
		h.lastAsk++
		h.asked[question{Head, h.lastAsk}] = &underway{to: node, reply: done}
		h.send([]int{node}, &Message{
			Kind: Ask, Number: h.lastAsk, From: Head, To: node, Service: service,
			Blobs: [][]byte{body},
		})
	})
	if refused != nil {
		done(nil, refused)
	}
}

// settle answers a question to a node, once.
func (h *Hub) settle(q question, to int, answer []byte, err error) {
	u := h.asked[q]
	if u == nil || u.to != to {
		return
	}
	h.forget(q, u)
	if u.reply != nil {
		go u.reply(answer, err)
		return
	}
	h.send([]int{q.from}, answerTo(&Message{Number: q.number, From: q.from, To: u.to}, answer, err))
}

func (h *Hub) forget(q question, u *underway) {
	if delete(h.asked, q); q.from != Head {
		h.letGo(account{q.from, Ask}, u.bytes)
	}
}
