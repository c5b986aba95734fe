package join

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxUnknown is how many connections there may be of which nobody knows whose they
// are. The next one then waits in the kernel's queue until the first of these has had
// crowdPause, which is much for the few bytes that it should have sent.
const maxUnknown = 1024

const crowdPause = time.Second

// guests are connections in the order in which they came. The head's lock guards them.
type guests struct {
	order []*guest
	most  int
	left  chan struct{}
}

// unknownFor leaves a process three quarters of its descriptors.
func unknownFor(descriptors uint64) int { return int(max(min(descriptors/4, maxUnknown), 1)) }

func descriptors() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what Linux gives when nobody says otherwise
	}
	return limit.Cur
}

func (u *guests) remove(g *guest) {
	u.order = slices.DeleteFunc(u.order, func(other *guest) bool { return other == g })
	select {
	case u.left <- struct{}{}:
	default:
	}
}

// room waits until one more may come, and reports whether the head goes on.
func (u *guests) room(mu *sync.Mutex, over <-chan struct{}) bool {
	for {
		mu.Lock()
		full, wait := len(u.order) >= u.most, time.Duration(0)
		if full {
			if wait = crowdPause - time.Since(u.order[0].came); wait <= 0 {
				u.order[0].Close()
				u.order, full = u.order[1:], false
			}
		}
		mu.Unlock()
		if !full {
			return true
		}
		pause(wait, over, u.left)
		select {
		case <-over:
			return false
		default:
		}
	}
}

// pause waits until one of the channels can be received from, and reports whether neither could for so long.
func pause(d time.Duration, a, b <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a:
	case <-b:
	case <-timer.C:
		return true
	}
	return false
}

// maxTold is how many lines about strangers, and about nodes, are told: who cannot
// come in must not fill somebody's screen.
const maxTold = 32

// talk tells each thing once.
type talk struct {
	tell func(string)
	mu   sync.Mutex
	said map[string]bool
}

// once tells a thing of this kind once per address.
func (t *talk) once(peer netip.Addr, format string, args ...any) {
	t.say(peer.String()+format, fmt.Sprintf(format, args...))
}

// node tells of a node, which may be refused for one thing after another.
func (t *talk) node(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.say(text, text)
}

func (t *talk) say(key, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.said[key] || len(t.said) > maxTold {
		return
	}
	if t.said == nil {
		t.said = map[string]bool{}
	}
	t.said[key] = true
	if len(t.said) > maxTold {
		text = "more peers were turned away at node 0's port; no more of them are named"
	}
	t.tell(text)
}
