// Package node holds what the PMI and PMIx servers of one node have in common.
package node

import (
	"slices"
	"sync"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Node is the lock of a server, with its ways to the launcher and to the servers of other nodes. Nothing waits while
// it holds the lock.
type Node struct {
	Exchange *exchange.Node
	Launcher world.Launcher

	mu    sync.Mutex
	later []func()
}

// Lock locks the server.
func (n *Node) Lock() { n.mu.Lock() }

// Unlock unlocks the server, and then calls what AfterUnlock was given meanwhile.
func (n *Node) Unlock() {
	later := n.later
	n.later = nil
	n.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// AfterUnlock defers a call that may wait or lead back to the server, as those of the launcher do. The caller holds the
// lock.
func (n *Node) AfterUnlock(f func()) { n.later = append(n.later, f) }

// Say shows the user a text in the name of a rank. The caller holds the lock.
func (n *Node) Say(p world.Proc, text string) {
	n.AfterUnlock(func() { n.Launcher.Say(p, text) })
}

// Stuck reports ranks that wait for one that will never come. The caller holds the lock.
func (n *Node) Stuck(waiting []world.Proc, missing world.Proc) {
	n.AfterUnlock(func() { n.Launcher.Stuck(waiting, missing) })
}

// Spawn has the launcher start a world. done is called with the lock held, after gorun has reported why it failed.
// The caller holds the lock.
func (n *Node) Spawn(s world.Spawn, done func(name string, err error)) {
	n.AfterUnlock(func() {
		n.Launcher.Spawn(s, func(name string, err error) {
			if err != nil {
				n.Launcher.Say(s.By, "MPI_Comm_spawn: "+err.Error())
			}
			n.Lock()
			defer n.Unlock()
			done(name, err)
		})
	})
}

// Request has a service of another node's server answer. done is called with the lock held.
func (n *Node) Request(to int, service string, body []byte, done func(reply []byte, err error)) {
	n.Exchange.Request(to, service, body, func(reply []byte, err error) {
		n.Lock()
		defer n.Unlock()
		done(reply, err)
	})
}

// RequestAll is Request for several nodes. each gets every reply; done is called after the last one. Both are called
// with the lock held, as RequestAll is.
func (n *Node) RequestAll(nodes []int, service string, body []byte, each func(node int, reply []byte, err error),
	done func(),
) {
	left := len(nodes)
	if left == 0 {
		done()
	}
	for _, to := range nodes {
		n.Request(to, service, body, func(reply []byte, err error) {
			each(to, reply, err)
			if left--; left == 0 {
				done()
			}
		})
	}
}

// World is a world as the servers of one node see it.
type World struct {
	*world.World
	Nodes  []int   // that serve its ranks, ascending
	Local  []int   // ranks that this node serves
	ByHost [][]int // ranks, by host

	node int
}

// NewWorld returns a world as the given node sees it.
func NewWorld(w *world.World, node int) World {
	v := World{World: w, ByHost: make([][]int, len(w.Hosts)), node: node}
	for rank, r := range w.Ranks {
		v.Nodes = append(v.Nodes, r.Node)
		v.ByHost[r.Host] = append(v.ByHost[r.Host], rank)
		if r.Node == node {
			v.Local = append(v.Local, rank)
		}
	}
	slices.Sort(v.Nodes)
	v.Nodes = slices.Compact(v.Nodes)
	return v
}

// Has reports whether the world has such a rank.
func (w *World) Has(rank int) bool { return rank >= 0 && rank < len(w.Ranks) }

// IsLocal reports whether this node serves the rank, which the world has.
func (w *World) IsLocal(rank int) bool { return w.Ranks[rank].Node == w.node }

// Proc returns the name of a rank.
func (w *World) Proc(rank int) world.Proc { return world.Proc{World: w.Name, Rank: rank} }
