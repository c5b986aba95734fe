package join

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// inbound is an accepted connection.
type inbound struct {
	*net.TCPConn
	peer     netip.AddrPort
	attempt  int // of the head, at the time of accept
	accepted time.Time
}

// maxPending limits the connections whose peer is unknown. The next connection then waits in the kernel's queue until
// the oldest pending one has had pendingGrace, which is plenty for a few bytes.
const (
	maxPending   = 1024
	pendingGrace = time.Second
)

// pending holds the connections whose peer is unknown, in order of arrival. The head's lock guards it.
type pending struct {
	conns []*inbound
	max   int
	freed chan struct{} // holds a token after a connection has left
}

// pendingLimit leaves a process three quarters of its descriptors.
func pendingLimit(descriptors uint64) int { return int(max(min(descriptors/4, maxPending), 1)) }

func maxDescriptors() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // Linux's default
	}
	return limit.Cur
}

func (p *pending) remove(c *inbound) {
	p.conns = slices.DeleteFunc(p.conns, func(other *inbound) bool { return other == c })
	signal(p.freed)
}

// signal puts a token into a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitForSlot waits until another connection fits. It returns false if done was closed before.
func (p *pending) waitForSlot(mu *sync.Mutex, done <-chan struct{}) bool {
	for {
		mu.Lock()
		full, wait := len(p.conns) >= p.max, time.Duration(0)
		if full {
			if wait = pendingGrace - time.Since(p.conns[0].accepted); wait <= 0 {
				p.conns[0].Close()
				p.conns, full = p.conns[1:], false
			}
		}
		mu.Unlock()
		if !full {
			return true
		}
		pause(wait, done, p.freed)
		select {
		case <-done:
			return false
		default:
		}
	}
}

// pause sleeps for d, or until one of the channels is ready. It reports whether it slept for d.
func pause(d time.Duration, a, b <-chan struct{}) bool {
	select {
	case <-a:
	case <-b:
	case <-time.After(d):
		return true
	}
	return false
}

// maxNotices limits the notices of one kind, so that peers without access cannot flood the screen.
const maxNotices = 32

// notices passes each notice on once.
type notices struct {
	notify func(string)
	mu     sync.Mutex
	sent   map[string]bool
}

// addPerAddr sends a notice of this format once per address.
func (n *notices) addPerAddr(peer netip.Addr, format string, args ...any) {
	n.send(peer.String()+format, fmt.Sprintf(format, args...))
}

// add sends a notice once.
func (n *notices) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.send(text, text)
}

func (n *notices) send(key, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sent[key] || len(n.sent) > maxNotices {
		return
	}
	if n.sent == nil {
		n.sent = map[string]bool{}
	}
	n.sent[key] = true
	if len(n.sent) > maxNotices {
		text = "refused more connections to node 0's port; gorun no longer reports them"
	}
	n.notify(text)
}
