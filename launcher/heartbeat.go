package launcher

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/internal/wire"
)

// heartbeat has nodes hear of the head, and ends the links to those that are not heard of any more.
type heartbeat struct {
	nodes atomic.Pointer[[]*node] // agents are replaced while it goes on
	stop  func()                  // nil: it has not begun
}

// begin begins it. It counts beats and looks at no clock: a head that was stopped (Ctrl-Z, a laptop's lid) has not been
// waiting meanwhile.
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

// beat is one beat; after most of them without a sign of life, which a lease lasts, the node counts as lost.
func (n *node) heartbeat(lease time.Duration, most int32) {
	if !n.linked.Load() { // it has not been reached yet
		return
	}
	if n.served != nil { // it ends with this process, and only then
		_ = n.link.Send(&wire.Ping{})
		return
	}
	if n.suspended.Load() {
		n.missedHeartbeats.Store(0)
	}
	if n.missedHeartbeats.Add(1) > most {
		n.silent(lease)
		return
	}
	_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // a link that has ended is noticed by who reads
}

// silent gives a node up that was not heard of.
func (n *node) silent(lease time.Duration) {
	n.abandon(fmt.Sprintf("not heard of for %s: its link is cut, or the host hangs", lease))
}

// giveUp waits for the node no longer.
func (n *node) abandon(why string) {
	if n.abandoned.CompareAndSwap(nil, why) {
		n.markLost(errAbandoned)
		go n.link.Close()
	}
}

var errAbandoned = errors.New("silent")
