package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Head is node 0's side: the port to which the other nodes come, and later ranks.
type Head struct {
	cfg   Config
	open  context.Context // until Close
	end   context.CancelFunc
	addr  netip.AddrPort
	port  *os.File // the listening socket: a net.Listener cannot be asked without waiting
	raw   syscall.RawConn
	tls   *tls.Config   // nil: no token
	seals chan struct{} // bounds the secrets that are being sealed
	told  talk          // of nodes
	seen  talk          // of strangers, who must not use up what may be told of nodes
	work  sync.WaitGroup

	// elsewhere says that the endpoint is no address of this host: one that leads here by
	// translation, or a mistake.
	elsewhere bool

	mu      sync.Mutex
	closed  bool
	attempt int // counts calls of ServeStore: connections of one belong to no later one
	// store takes over a connection of a store client, of which first was read already; nil: there is no store
	store   func(c *net.TCPConn, first []byte) error
	unknown guests // who did not show yet who he is
	meeting meeting
}

// Listen opens node 0's port; the others may come from then on. It does not wait for
// them. A port that is taken is a *PortTakenError.
func Listen(ctx context.Context, cfg Config) (*Head, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	h := &Head{cfg: cfg, told: talk{tell: cfg.Notify}, seen: talk{tell: cfg.Notify}}
	h.open, h.end = context.WithCancel(context.Background())
	h.meeting.changed = make(chan struct{}, 1)
	if cfg.Addr != "" {
		here, err := IsEndpointHere(ctx, cfg.Addr)
		h.elsewhere = err == nil && !here
	}
	h.unknown = guests{most: unknownFor(descriptors()), left: make(chan struct{}, 1)}
	if err := h.vouch(ctx); err != nil {
		return nil, err
	}
	if h.cfg.Secret != nil {
		if h.tls, err = tlsFor(h.cfg.Secret, forHead, forNode); err != nil {
			return nil, err
		}
	}
	if err := h.cfg.checkSecret(); err != nil {
		return nil, err
	}
	if h.port, h.addr, err = open(ctx, &h.cfg); err != nil {
		return nil, err
	}
	h.cfg.warn()
	h.cfg.Port, h.cfg.Ports = int(h.addr.Port()), nil
	if h.raw, err = h.port.SyscallConn(); err != nil {
		h.port.Close()
		return nil, err
	}
	h.work.Go(h.accept)
	return h, nil
}

// Addr is where node 0 listens.
func (h *Head) Addr() netip.AddrPort { return h.addr }

// ServeStore hands store clients that connect from now on to take; nil refuses them.
// Who connected before, a killed rank's connection in the kernel's queue, say, is closed:
// it belongs to an attempt that is gone.
func (h *Head) ServeStore(take func(c *net.TCPConn, first []byte) error) error {
	var late []int
	err := h.raw.Control(func(fd uintptr) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for {
			c, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err == nil {
				late = append(late, c)
			} else if err != unix.EINTR && err != unix.ECONNABORTED {
				break
			}
		}
		h.attempt++
		h.store = take
	})
	for _, c := range late {
		unix.Close(c)
	}
	return err
}

// Close ends the port and all connections but those of members and those that were
// taken for the store.
func (h *Head) Close() error {
	h.mu.Lock()
	h.closed = true
	h.end()
	h.store = nil
	for _, g := range h.unknown.order { // each is removed by its own goroutine
		g.Close()
	}
	h.meeting.closeAll()
	h.mu.Unlock()
	err := h.port.Close() // not under the lock, which who accepts may want first
	h.work.Wait()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// guest is a connection from its first byte on.
type guest struct {
	*net.TCPConn
	peer    netip.AddrPort
	attempt int // of the head, when it was accepted
	came    time.Time
}

// accept takes connections for as long as the port is open.
func (h *Head) accept() {
	for {
		if !h.unknown.room(&h.mu, h.open.Done()) {
			return
		}
		g, err := h.next()
		if err == nil {
			h.admit(g)
			continue
		}
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		select {
		case <-h.open.Done():
			return
		default:
			h.seen.once(netip.Addr{}, "node 0 cannot take connections at the moment: %v", err)
		}
		if !pause(crowdPause, h.open.Done(), nil) {
			return
		}
	}
}

// next accepts a connection. It is counted to the attempt in which it is taken from
// the kernel's queue.
func (h *Head) next() (*guest, error) {
	var (
		fd       int
		from     unix.Sockaddr
		attempt  int
		accepted error
	)
	err := h.raw.Read(func(port uintptr) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		fd, from, accepted = unix.Accept4(int(port), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		attempt = h.attempt
		return accepted != unix.EAGAIN
	})
	if err = errors.Join(err, accepted); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "join")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return &guest{c.(*net.TCPConn), addrPort(from), attempt, time.Now()}, nil
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// admit finds out who it is, beside all others.
func (h *Head) admit(g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		g.Close()
		return
	}
	h.unknown.order = append(h.unknown.order, g)
	h.work.Go(func() { h.receive(g) })
}

// leave takes a connection out of those that nobody knows.
func (h *Head) leave(g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unknown.remove(g)
}

// firstWithin is how long a connection may take for each step of showing who it is,
// and how long a peer may take to take what it is told.
const firstWithin = 10 * time.Second

// receive does with a connection what its beginning asks for. It is the connection's
// owner until somebody else takes it.
func (h *Head) receive(g *guest) {
	defer h.leave(g)
	_ = g.SetDeadline(time.Now().Add(h.cfg.patience))
	who, first, err := listenTo(g)
	if err != nil {
		g.Close() // a port scan, mostly: nothing to tell
		return
	}
	_ = g.SetDeadline(time.Now().Add(h.cfg.patience))
	switch who {
	case storeClient:
		h.serveStore(g, first)
	case oldClient:
		h.seen.once(g.peer.Addr(), "PyTorch before 2.2, which gorun cannot serve, dialled in from %v", g.peer.Addr())
		g.Close()
	case secureNode:
		h.receiveSecure(g, first)
	case plainNode:
		h.receivePlain(g, first)
	default:
		h.seen.once(g.peer.Addr(), "a stranger dialled node 0's port from %v and was turned away: it began with %q",
			g.peer.Addr(), first)
		g.Close()
	}
}

// serveStore hands a store client on, if there is a store and the client came for it.
func (h *Head) serveStore(g *guest, first []byte) {
	h.mu.Lock()
	store, attempt := h.store, h.attempt
	h.mu.Unlock()
	switch {
	case attempt == 0:
		h.seen.once(g.peer.Addr(), "a PyTorch client dialled in from %v, where no rank of this job runs yet: a torchrun, "+
			"or a script without a launcher; start gorun there instead, as on this node", g.peer.Addr())
	case store != nil && attempt == g.attempt:
		_ = g.SetDeadline(time.Time{})
		_ = store(g.TCPConn, first) // the store is gone: so is the connection
		return
	}
	g.Close()
}

// receiveSecure lets a node prove that it has the token before it may say anything.
func (h *Head) receiveSecure(g *guest, first []byte) {
	if h.tls == nil {
		h.turnAway(g,
			"node 0 has no token: give it the one that this node has (--token-file, GORUN_TOKEN), or start this one without")
		return
	}
	c := tls.Server(&rewound{g.TCPConn, first}, h.tls)
	if err := c.Handshake(); err != nil {
		if tokenTrouble(err) {
			h.told.node("a node at %v was refused: its token is not that of node 0 (--token-file, GORUN_TOKEN)", g.peer.Addr())
		} else {
			h.seen.once(g.peer.Addr(), "a connection from %v ended before it had proven its token: %v", g.peer.Addr(), err)
		}
		g.Close()
		return
	}
	h.greet(g, c, c)
}

func (h *Head) receivePlain(g *guest, first []byte) {
	if h.tls != nil && h.cfg.Sealer != nil {
		h.giveSecret(g, first)
		return
	}
	if h.tls != nil {
		h.turnAway(g, "node 0 wants a token: give this node the same one (--token-file, GORUN_TOKEN, "+
			"or the file that `gorun token --save` made there)")
		return
	}
	if h.cfg.isOwn() {
		if err := checkOwn(g.TCPConn); err != nil {
			h.turnAway(g, "node 0 has no token, and takes processes of its own user on its own host alone ("+err.Error()+
				"): give all nodes the same --token-file FILE")
			return
		}
	}
	h.greet(g, &rewound{g.TCPConn, first}, g.TCPConn)
}

// turnAway refuses a node before anything of it was read beyond its first bytes.
func (h *Head) turnAway(g *guest, why string) {
	h.told.node("a node at %v was refused: %s", g.peer.Addr(), why)
	h.dismiss(g, g, &Welcome{Refusal: why, Other: true})
}

// dismiss answers on c, the connection of a guest or TLS over that, and ends it.
func (h *Head) dismiss(g *guest, c net.Conn, w *Welcome) {
	w.Host = h.cfg.Self.Host
	_ = g.SetDeadline(time.Now().Add(h.cfg.patience))
	if writeMessage(c, w) == nil {
		linger(g.TCPConn)
	}
	c.Close()
}

// linger waits, for a while, until the other end has read what was sent: a socket that
// is closed with unread bytes takes back what it sent.
func linger(c *net.TCPConn) {
	const limit = 2 * time.Second
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	drop := make([]byte, 4<<10)
	for range (maxMessage + headerSize) / len(drop) * 2 {
		if _, err := c.Read(drop); err != nil {
			return
		}
	}
}

// greet reads a node's hello from hear and takes the node in, or says why not on c.
func (h *Head) greet(g *guest, hear net.Conn, c net.Conn) {
	hello, err := readHello(hear)
	var other *versionError
	switch {
	case errors.As(err, &other):
		h.told.node("a node at %v was refused: %v", g.peer.Addr(), err)
		h.dismiss(g, c, &Welcome{
			Other: true,
			Refusal: fmt.Sprintf(
				"this node speaks version %d of joining, node 0 speaks %d (gorun %s): the same gorun is needed on all nodes",
				other.theirs, Protocol, h.cfg.Self.Version),
		})
		return
	case err != nil:
		h.told.node("a node at %v was refused: %v", g.peer.Addr(), err)
		c.Close()
		return
	}
	_ = g.SetDeadline(time.Time{})
	if refusal := h.take(&Member{Conn: c, Hello: hello, NodeRank: hello.NodeRank, Peer: g.peer}); refusal != nil {
		h.leave(g) // it is known: who closes the head lets it hear why
		h.told.node("the node %s at %v was refused: %s", hello.Name(), g.peer.Addr(), refusal.Refusal)
		h.dismiss(g, c, refusal)
	}
}
