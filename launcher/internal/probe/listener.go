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

// Bounds against peers that do not belong to the job.
const (
	// maxPeers are served at a time; one more, or a lack of descriptors, closes the oldest. All nodes of a large job
	// connect to node 0 at once, each over several paths.
	maxPeers    = 4096
	peerTimeout = 5 * time.Second
	acceptPause = 10 * time.Millisecond // after a failed accept, such as for lack of descriptors
)

// Listener answers the probes of one job that are meant for one node.
type Listener struct {
	key  []byte
	node int
	ln   net.Listener

	mu     sync.Mutex
	peers  []net.Conn // oldest first
	closed bool
	work   sync.WaitGroup
}

// Listen answers probes for node on all addresses of this host until Close. With port 0 it takes a free port. The key
// has at least MinKey bytes and is secret to the job.
func Listen(key []byte, node, port int) (*Listener, error) {
	if len(key) < MinKey {
		return nil, fmt.Errorf("probe: a key of %d bytes; at least %d are needed", len(key), MinKey)
	}
	ln, err := net.Listen("tcp", ":"+strconv.Itoa(port)) // #nosec G102 -- both families, if the host has both
	if err != nil {
		return nil, err
	}
	l := &Listener{key: key, node: node, ln: ln}
	l.work.Go(l.accept)
	return l, nil
}

// Port returns the port that probes are answered on.
func (l *Listener) Port() int { return l.ln.Addr().(*net.TCPAddr).Port }

// Close ends the listener and every connection, and waits until they are gone.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed = true
	_ = l.ln.Close()
	for _, peer := range l.peers {
		_ = peer.Close()
	}
	l.mu.Unlock()
	l.work.Wait()
}

func (l *Listener) accept() {
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
			time.Sleep(acceptPause)
		}
	}
}

func (l *Listener) admit(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return
	}
	if len(l.peers) >= maxPeers {
		l.closeOldest()
	}
	l.peers = append(l.peers, conn)
	l.work.Go(func() {
		l.serve(conn)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.peers = slices.DeleteFunc(l.peers, func(peer net.Conn) bool { return peer == conn })
	})
}

func (l *Listener) closeOldest() {
	if len(l.peers) > 0 {
		_ = l.peers[0].Close()
		l.peers = slices.Delete(l.peers, 0, 1)
	}
}

// serve answers one peer. It sends nothing to a peer that is not of the job. The dialer closes first, so that no
// TIME_WAIT stays on a port that the store takes next.
func (l *Listener) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(peerTimeout))
	var greet [greetSize]byte
	if _, err := io.ReadFull(conn, greet[:magicSize]); err != nil || purposeOf(greet[:]) == nil {
		return
	}
	if _, err := io.ReadFull(conn, greet[magicSize:]); err != nil {
		return
	}
	reply := answer(l.key, l.node, greet[:])
	if reply == nil {
		return
	}
	if _, err := conn.Write(reply); err != nil {
		return
	}
	if purposeOf(greet[:]) == toMeasure {
		serveMeasurement(conn)
		return
	}
	_, _ = conn.Read(greet[:1])
}
