// Package exchangetest joins nodes of an exchange plane in one process, for tests of what
// is built on it.
package exchangetest

import (
	"math/rand/v2"
	"sync"
	"testing"

	"gorun/rendezvous/exchange"
)

// Star is some nodes and the hub between them. Messages stay in order on the way between a
// node and the hub, as on a connection; those of different nodes come in any order.
type Star struct {
	Nodes []*exchange.Node
	Hub   *exchange.Hub
	Names *exchange.Names

	mu     sync.Mutex
	filled sync.Cond
	ways   []way // up from each node, then down to each
	count  int   // messages so far
	closed bool
}

// way is one direction between a node and the hub.
type way struct {
	queue []*exchange.Message
	cut   bool
}

// New joins that many nodes until the test ends. Messages are delivered as they come, or,
// with a source of random numbers, by the ways that it draws, so that any node may be
// behind any other; testneeds.Rand is one that prints its seed.
func New(t testing.TB, nodes int, rng *rand.Rand) *Star {
	s := NewStopped(nodes)
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for s.wait() {
			s.Step(rng)
		}
	})
	t.Cleanup(delivering.Wait) // after the one that closes
	t.Cleanup(s.Close)
	return s
}

// NewStopped joins nodes until Close, among which nothing is delivered but by Step.
func NewStopped(nodes int) *Star {
	s := &Star{ways: make([]way, 2*nodes)}
	s.filled.L = &s.mu
	s.Hub = exchange.NewHub(nodes, func(to []int, m *exchange.Message) {
		for _, node := range to {
			s.put(nodes+node, m)
		}
	})
	s.Names = exchange.ServeNames(s.Hub)
	for i := range nodes {
		s.Nodes = append(s.Nodes, exchange.NewNode(i, func(m *exchange.Message) error {
			s.put(i, m)
			return nil
		}))
	}
	return s
}

// Messages counts those that were sent so far.
func (s *Star) Messages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Lose cuts a node off, and tells the hub.
func (s *Star) Lose(node int) {
	s.Cut(node)
	s.Hub.NodeLost(node)
}

// Cut has nothing more come from a node, or to it.
func (s *Star) Cut(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ways[node] = way{cut: true}
	s.ways[len(s.Nodes)+node] = way{cut: true}
}

func (s *Star) put(at int, m *exchange.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if w := &s.ways[at]; !w.cut && !s.closed {
		own := *m
		w.queue = append(w.queue, &own)
		s.filled.Signal()
	}
}

// wait reports whether there is something to deliver, once there is or all is over.
func (s *Star) wait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.next(nil) < 0 {
		s.filled.Wait()
	}
	return !s.closed
}

// next is a way on which something is; -1: none. A nil rng gives the first.
func (s *Star) next(rng *rand.Rand) int {
	first := 0
	if rng != nil {
		first = rng.IntN(len(s.ways))
	}
	for i := range s.ways {
		if at := (first + i) % len(s.ways); len(s.ways[at].queue) > 0 {
			return at
		}
	}
	return -1
}

// Step delivers one message, and reports whether there was one. What it brings about may
// still run when it returns; a nil rng takes the first.
func (s *Star) Step(rng *rand.Rand) bool {
	s.mu.Lock()
	at := s.next(rng)
	if at < 0 {
		s.mu.Unlock()
		return false
	}
	w := &s.ways[at]
	m := w.queue[0]
	w.queue = w.queue[1:]
	s.mu.Unlock()
	if nodes := len(s.Nodes); at < nodes {
		s.Hub.Receive(at, m)
	} else {
		s.Nodes[at-nodes].Receive(m)
	}
	return true
}

// Close ends it before the test does.
func (s *Star) Close() {
	s.mu.Lock()
	s.closed = true
	s.filled.Broadcast()
	s.mu.Unlock()
	for _, n := range s.Nodes {
		n.Close(nil)
	}
	s.Names.Close()
	s.Hub.Close()
}
