// Package exchangetest connects nodes of an exchange in one process, for tests.
package exchangetest

import (
	"math/rand/v2"
	"sync"
	"testing"

	"gorun/rendezvous/exchange"
)

// Star is a hub with its nodes. Messages between a node and the hub stay in order, as on a connection; those of
// different nodes arrive in any order.
type Star struct {
	Nodes []*exchange.Node
	Hub   *exchange.Hub
	Names *exchange.Names

	mu     sync.Mutex
	filled sync.Cond
	links  []link // from each node to the hub, then from the hub to each node
	count  int    // messages sent so far
	closed bool
}

// link is one direction between a node and the hub.
type link struct {
	queue []*exchange.Message
	cut   bool
}

// New connects nodes until the test ends. Messages are delivered in order or, with a source of random numbers such as
// testneeds.Rand, by links that it picks, so that any node may lag behind any other.
func New(t testing.TB, nodes int, rng *rand.Rand) *Star {
	s := NewStopped(nodes)
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for s.wait() {
			s.Step(rng)
		}
	})
	t.Cleanup(delivering.Wait) // runs after Close
	t.Cleanup(s.Close)
	return s
}

// NewStopped connects nodes until Close. Only Step delivers messages.
func NewStopped(nodes int) *Star {
	s := &Star{links: make([]link, 2*nodes)}
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

// Messages returns the number of messages sent so far.
func (s *Star) Messages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Lose cuts a node off and reports that to the hub.
func (s *Star) Lose(node int) {
	s.Cut(node)
	s.Hub.NodeLost(node)
}

// Cut drops all messages from and to a node from now on.
func (s *Star) Cut(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[node] = link{cut: true}
	s.links[len(s.Nodes)+node] = link{cut: true}
}

func (s *Star) put(at int, m *exchange.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if w := &s.links[at]; !w.cut && !s.closed {
		own := *m
		w.queue = append(w.queue, &own)
		s.filled.Signal()
	}
}

// wait waits until there is a message to deliver, and reports false when the star is closed.
func (s *Star) wait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.next(nil) < 0 {
		s.filled.Wait()
	}
	return !s.closed
}

// next returns a link with a message, -1 if none exists: the first one if rng is nil.
func (s *Star) next(rng *rand.Rand) int {
	first := 0
	if rng != nil {
		first = rng.IntN(len(s.links))
	}
	for i := range s.links {
		if at := (first + i) % len(s.links); len(s.links[at].queue) > 0 {
			return at
		}
	}
	return -1
}

// Step delivers one message and reports whether there was one, from the first link that has one if rng is nil.
// Callbacks may still run when it returns.
func (s *Star) Step(rng *rand.Rand) bool {
	s.mu.Lock()
	at := s.next(rng)
	if at < 0 {
		s.mu.Unlock()
		return false
	}
	w := &s.links[at]
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

// Close closes all nodes and the hub. It may be called before the test ends.
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
