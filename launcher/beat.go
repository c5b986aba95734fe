package launcher

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"gorun/launcher/internal/wire"
)

// beats of silence after which a node counts as lost: a lease.
func (s *session) leaseBeats() int32 { return int32(s.spec.Lease() / s.spec.Beat()) }

// beat has the nodes hear of the head from now on, and ends the links to those that
// are not heard of any more. It counts beats and looks at no clock: a head that was
// stopped (Ctrl-Z, a laptop's lid) has not been waiting meanwhile.
func (s *session) beat() {
	nodes := s.nodes
	s.beating.Store(&nodes)
	s.beatOver(func() []*node { return *s.beating.Load() })
}

// beatOver does so for other nodes than those of the session.
func (s *session) beatOver(nodes func() []*node) {
	over := make(chan struct{})
	s.endBeat = sync.OnceFunc(func() { close(over) })
	go func() {
		tick := time.NewTicker(s.spec.Beat())
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				for _, n := range nodes() {
					s.beatTo(n)
				}
			}
		}
	}()
}

func (s *session) beatTo(n *node) {
	if !n.listens.Load() { // it has not been reached yet
		return
	}
	if n.served != nil { // it ends with this process, and only then
		_ = n.link.Send(&wire.Ping{})
		return
	}
	if n.stopped.Load() {
		n.beats.Store(0)
	}
	if n.beats.Add(1) > s.leaseBeats() {
		n.silent(s.spec.Lease())
		return
	}
	_ = n.link.Send(&wire.Ping{Sent: time.Now()}) // a link that has ended is noticed by who reads
}

// silent gives a node up that was not heard of.
func (n *node) silent(lease time.Duration) {
	n.giveUp(fmt.Sprintf("not heard of for %s: its link is cut, or the host hangs", lease))
}

// giveUp waits for the node no longer.
func (n *node) giveUp(why string) {
	if n.silence.CompareAndSwap(nil, why) {
		n.lose(errSilent)
		go n.link.Close()
	}
}

var errSilent = errors.New("silent")
