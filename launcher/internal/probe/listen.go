package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Bounds against peers that are not of the job.
const (
	// maxPeers are served at the same time; one more takes the place of the oldest, as does each for which there is no
	// descriptor. All nodes of a large job come to node 0 at once, by more ways than one.
	maxPeers = 4096
	// peerTime is how long one peer is listened to.
	peerTime = 5 * time.Second
	// acceptPause follows a failed accept, as for want of descriptors.
	acceptPause = 10 * time.Millisecond
)

// Listener answers probes of one job that are meant for one node.
type Listener struct {
	key  []byte
	node int
	ln   net.Listener
	over chan struct{}

	mu    sync.Mutex
	peers []net.Conn // oldest first
	ended bool
	work  sync.WaitGroup
}

// Listen answers probes for node on all addresses of this host, at a port that is
// free where port is 0, until Close. Key has at least MinKey bytes, which nobody
// outside the job knows.
func Listen(key []byte, node, port int) (*Listener, error) {
	if len(key) < MinKey {
		return nil, fmt.Errorf("probe: a key of %d bytes; at least %d are needed", len(key), MinKey)
	}
	ln, err := net.Listen("tcp", ":"+strconv.Itoa(port)) // #nosec G102 -- both families, where the host has both
	if err != nil {
		return nil, err
	}
	l := &Listener{key: key, node: node, ln: ln, over: make(chan struct{})}
	l.work.Add(1)
	go l.accept()
	return l, nil
}

// Port is where probes are answered.
func (l *Listener) Port() int { return l.ln.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every connection, and returns when nothing of it is
// left.
func (l *Listener) Close() {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.over)
		_ = l.ln.Close()
		for _, peer := range l.peers {
			_ = peer.Close()
		}
	}
	l.mu.Unlock()
	l.work.Wait()
}

func (l *Listener) accept() {
	defer l.work.Done()
	for {
		conn, err := l.ln.Accept()
		switch {
		case err == nil:
			l.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			l.mu.Lock()
			l.closeOldest()
			l.mu.Unlock()
			select {
			case <-l.over:
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// admit serves a peer beside the others.
func (l *Listener) admit(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = conn.Close()
		return
	}
	if len(l.peers) >= maxPeers {
		l.closeOldest()
	}
	l.peers = append(l.peers, conn)
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		l.serve(conn)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.peers = slices.DeleteFunc(l.peers, func(peer net.Conn) bool { return peer == conn })
	}()
}

func (l *Listener) closeOldest() {
	if len(l.peers) > 0 {
		_ = l.peers[0].Close()
		l.peers = slices.Delete(l.peers, 0, 1)
	}
}

// serve answers one peer. Who is not of the job hears nothing. The dialer closes
// first, so that no TIME_WAIT stays on a port that the store takes next.
func (l *Listener) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(peerTime))
	var greet [greetSize]byte
	if _, err := io.ReadFull(conn, greet[:magicSize]); err != nil || purposeOf(greet[:]) == nil {
		return
	}
	if _, err := io.ReadFull(conn, greet[magicSize:]); err != nil {
		return
	}
	reply, err := answer(l.key, l.node, greet[:])
	if err != nil {
		return
	}
	if _, err := conn.Write(reply); err != nil {
		return
	}
	if purposeOf(greet[:]) == toMeasure {
		beMeasured(conn)
		return
	}
	_, _ = conn.Read(greet[:1])
}
