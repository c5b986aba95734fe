package launcher

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/wire"
)

// heartbeat renews agents' leases and ends links to silent nodes.
type heartbeat struct {
	nodes atomic.Pointer[[]*node] // restarts replace nodes
	stop  func()                  // nil before start
}

// start counts intervals instead of reading a clock: a head that was suspended (Ctrl-Z, a closed
// laptop) has not been waiting.
func (b *heartbeat) start(spec *Spec, nodes []*node) {
	b.nodes.Store(&nodes)
	over := make(chan struct{})
	b.stop = sync.OnceFunc(func() { close(over) })
	pause, lease := spec.HeartbeatInterval(), spec.Lease()
	go func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				for _, n := range *b.nodes.Load() {
					n.heartbeat(lease, int32(lease/pause))
				}
			}
		}
	}()
}

// add renews the lease of one more node, until nodes are replaced.
func (b *heartbeat) add(n *node) {
	for {
		old := b.nodes.Load()
		nodes := append(slices.Clone(*old), n)
		if b.nodes.CompareAndSwap(old, &nodes) {
			return
		}
	}
}

// heartbeat sends a ping and abandons the node after limit intervals without a frame.
func (n *node) heartbeat(lease time.Duration, most int32) {
	if !n.linked.Load() {
		return
	}
	if n.served != nil { // it cannot outlive this process
		_ = n.link.Send(&wire.Ping{})
		return
	}
	if n.suspended.Load() {
		n.missedHeartbeats.Store(0)
	}
	if n.missedHeartbeats.Add(1) > most {
		n.abandon(fmt.Sprintf("silent for %s: its connection broke, or the host hangs", lease))
		return
	}
	_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // readLoop notices a lost link
}

// abandon stops waiting for the node.
func (n *node) abandon(why string) {
	if n.abandoned.CompareAndSwap(nil, why) {
		n.markLost(errAbandoned)
		go n.link.Close()
	}
}

// dismiss has a node that joined end its part of the job.
func (n *node) dismiss(code int, why string) {
	if n.abandoned.CompareAndSwap(nil, why) {
		_ = n.link.Send(&wire.JobEnded{Code: code})
		n.markLost(errAbandoned)
	}
}

var errAbandoned = errors.New("silent")
