package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Head is node 0's side: the port that the other nodes, and later ranks, connect to.
type Head struct {
	cfg   Config
	open  context.Context // ends with Close
	end   context.CancelFunc
	addr  netip.AddrPort
	port  *os.File // the listening socket: net.Listener has no accept that does not block
	raw   syscall.RawConn
	tls   *tls.Config   // nil without a token
	seals chan struct{} // limits concurrent calls of Seal

	nodeNotices notices
	peerNotices notices // of unknown peers, which must not use up the limit for nodes
	work        sync.WaitGroup

	// isElsewhere says that the endpoint is not an address of this host: it is translated to one, or it is a mistake.
	isElsewhere bool

	mu      sync.Mutex
	closed  bool
	attempt int // counts calls of ServeStore: connections of one attempt are closed in later ones
	// store takes over a store client's connection, of which first was read already; nil: there is no store
	store   func(c *net.TCPConn, first []byte) error
	pending pending
	roster  roster
}

// Listen opens node 0's port. It does not wait for the other nodes, which may connect from then on. A port that is in
// use is a *PortTakenError.
func Listen(ctx context.Context, cfg Config) (*Head, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	h := &Head{cfg: cfg, nodeNotices: notices{notify: cfg.Notify}, peerNotices: notices{notify: cfg.Notify}}
	h.open, h.end = context.WithCancel(context.Background())
	h.roster.changed = make(chan struct{}, 1)
	if cfg.Addr != "" {
		here, err := IsEndpointHere(ctx, cfg.Addr)
		h.isElsewhere = err == nil && !here
	}
	h.pending = pending{max: pendingLimit(maxDescriptors()), freed: make(chan struct{}, 1)}
	h.makeSecret(ctx)
	if h.cfg.Secret != nil {
		if h.tls, err = tlsConfig(h.cfg.Secret, roleHead, roleNode); err != nil {
			return nil, err
		}
	}
	if err := h.cfg.checkSecret(); err != nil {
		return nil, err
	}
	if h.port, h.addr, err = listen(ctx, &h.cfg); err != nil {
		return nil, err
	}
	h.cfg.warn()
	h.cfg.Port, h.cfg.Ports = int(h.addr.Port()), nil
	if h.raw, err = h.port.SyscallConn(); err != nil {
		h.port.Close()
		return nil, err
	}
	h.work.Go(h.acceptLoop)
	return h, nil
}

// Addr returns the address that node 0 listens at.
func (h *Head) Addr() netip.AddrPort { return h.addr }

// ServeStore passes store clients that connect from now on to take; nil refuses them. Earlier connections, such as a
// killed rank's in the kernel's queue, are closed: they belong to an attempt that is over.
func (h *Head) ServeStore(take func(c *net.TCPConn, first []byte) error) error {
	var queued []int
	err := h.raw.Control(func(fd uintptr) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for {
			c, _, err := unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err == nil {
				queued = append(queued, c)
			} else if err != unix.EINTR && err != unix.ECONNABORTED {
				break
			}
		}
		h.attempt++
		h.store = take
	})
	for _, c := range queued {
		unix.Close(c)
	}
	return err
}

// Close closes the port and all connections except those of members and those that the store has taken over.
func (h *Head) Close() error {
	h.mu.Lock()
	h.closed = true
	h.end()
	h.store = nil
	for _, c := range h.pending.conns { // each is removed by its own goroutine
		c.Close()
	}
	h.roster.closeAll()
	h.mu.Unlock()
	err := h.port.Close() // without the lock, which acceptLoop may need first
	h.work.Wait()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (h *Head) acceptLoop() {
	for h.pending.waitForSlot(&h.mu, h.open.Done()) {
		c, err := h.acceptOne()
		if err == nil {
			h.serve(c)
			continue
		}
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		select {
		case <-h.open.Done():
			return
		default:
			h.peerNotices.addPerAddr(netip.Addr{}, "node 0 cannot accept connections: %v", err)
		}
		if !pause(pendingGrace, h.open.Done(), nil) {
			return
		}
	}
}

// acceptOne accepts a connection. It belongs to the attempt in which it leaves the kernel's queue.
func (h *Head) acceptOne() (*inbound, error) {
	var (
		fd        int
		attempt   int
		acceptErr error
	)
	err := h.raw.Read(func(port uintptr) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		fd, _, acceptErr = unix.Accept4(int(port), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		attempt = h.attempt
		return acceptErr != unix.EAGAIN
	})
	if err = errors.Join(err, acceptErr); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "join")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	peer, _ := c.RemoteAddr().(*net.TCPAddr) // nil if the peer has reset the connection already
	addr := peer.AddrPort()
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	return &inbound{c.(*net.TCPConn), addr, attempt, time.Now()}, nil
}

// serve identifies the peer of a connection on its own goroutine.
func (h *Head) serve(c *inbound) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		c.Close()
		return
	}
	h.pending.conns = append(h.pending.conns, c)
	h.work.Go(func() { h.receive(c) })
}

// forget removes a connection from the pending ones.
func (h *Head) forget(c *inbound) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending.remove(c)
}

// stepTimeout limits each step of a peer's identification, and how long a peer may take to read an answer.
const stepTimeout = 10 * time.Second

// receive serves a connection according to its preamble. It owns the connection until something takes it over.
func (h *Head) receive(c *inbound) {
	defer h.forget(c)
	_ = c.SetDeadline(time.Now().Add(h.cfg.patience))
	kind, first, err := readPreamble(c)
	if err != nil {
		c.Close() // mostly port scans: not worth a notice
		return
	}
	_ = c.SetDeadline(time.Now().Add(h.cfg.patience))
	switch kind {
	case storeClient:
		h.serveStore(c, first)
	case oldStoreClient:
		h.peerNotices.addPerAddr(c.peer.Addr(), "refused PyTorch before 2.2 from %v: use PyTorch 2.2 or later",
			c.peer.Addr())
		c.Close()
	case secureNode:
		h.receiveSecure(c, first)
	case plainNode:
		h.receivePlain(c, first)
	default:
		h.peerNotices.addPerAddr(c.peer.Addr(),
			"refused a connection from %v to node 0's port: unknown protocol that starts with %q", c.peer.Addr(), first)
		c.Close()
	}
}

// serveStore passes a store client on if there is a store of its attempt.
func (h *Head) serveStore(c *inbound, first []byte) {
	h.mu.Lock()
	store, attempt := h.store, h.attempt
	h.mu.Unlock()
	switch {
	case attempt == 0:
		h.peerNotices.addPerAddr(c.peer.Addr(),
			"a PyTorch client connected from %v, where this job has no ranks: torchrun, or a script without a "+
				"launcher; start gorun there as on this node", c.peer.Addr())
	case store != nil && attempt == c.attempt:
		_ = c.SetDeadline(time.Time{})
		_ = store(c.TCPConn, first) // fails when the store is closed, and then closes the connection
		return
	}
	c.Close()
}

// receiveSecure requires a node to prove the token before anything else is read.
func (h *Head) receiveSecure(c *inbound, first []byte) {
	if h.tls == nil {
		h.refuseUnread(c, noToken)
		return
	}
	secured := tls.Server(&rewound{c.TCPConn, first}, h.tls)
	if err := secured.Handshake(); err != nil {
		if isTokenMismatch(err) {
			h.nodeNotices.add("refused a node at %v: its token differs from node 0's (--token-file, GORUN_TOKEN)",
				c.peer.Addr())
		} else {
			h.peerNotices.addPerAddr(c.peer.Addr(), "a connection from %v ended before it had proved its token: %v",
				c.peer.Addr(), err)
		}
		c.Close()
		return
	}
	h.receiveHello(c, secured, secured, h.accept)
}

func (h *Head) receivePlain(c *inbound, first []byte) {
	answer := h.accept
	switch {
	case h.tls != nil && h.cfg.Sealer != nil:
		answer = h.sealSecret
	case h.tls != nil:
		h.refuseUnread(c, "node 0 requires a token: give this node the same token (--token-file, GORUN_TOKEN, or "+
			"node 0's file from `gorun token --save`)")
		return
	case h.cfg.isOneUser():
		if err := checkOwner(c.TCPConn); err != nil {
			h.refuseUnread(c, "node 0 has no token, and so accepts only its own user on its own host ("+
				err.Error()+"): give all nodes the same --token-file FILE")
			return
		}
	}
	h.receiveHello(c, &rewound{c.TCPConn, first}, c.TCPConn, answer)
}

// refuseUnread refuses a node of which only the preamble was read.
func (h *Head) refuseUnread(c *inbound, reason string) {
	h.refuse(c, c, "a node", &Welcome{Refusal: reason, OtherJob: true})
}

// refuse sends w on conn, which is c or TLS over it, and tells the user.
func (h *Head) refuse(c *inbound, conn net.Conn, name string, w *Welcome) {
	h.nodeNotices.add("refused %s at %v: %s", name, c.peer.Addr(), w.Refusal)
	h.answer(c, conn, w)
}

// answer sends w on conn, which is c or TLS over it, and closes it.
func (h *Head) answer(c *inbound, conn net.Conn, w *Welcome) {
	w.Host = h.cfg.Self.Host
	_ = c.SetDeadline(time.Now().Add(h.cfg.patience))
	if writeMessage(conn, w) == nil {
		drain(c.TCPConn)
	}
	conn.Close()
}

// drain waits, for a while, until the peer has read what was sent: closing a socket with unread bytes would discard it.
func drain(c *net.TCPConn) {
	const limit = 2 * time.Second
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	_, _ = io.CopyN(io.Discard, c, 2*(maxMessage+int64(headerSize)))
}

// receiveHello reads a node's hello from in, and answers it on conn unless the node is a member now.
func (h *Head) receiveHello(c *inbound, in, conn net.Conn, answerTo func(c *inbound, m *Member) *Welcome) {
	hello, err := readHello(in)
	if err != nil {
		h.nodeNotices.add("refused a node at %v: %v", c.peer.Addr(), err)
		other, ok := errors.AsType[*versionError](err)
		if !ok {
			conn.Close()
			return
		}
		h.answer(c, conn, &Welcome{
			OtherJob: true,
			Refusal: fmt.Sprintf(
				"this node uses version %d of the join protocol, node 0 uses %d (gorun %s): install the same gorun on all nodes",
				other.theirs, Protocol, h.cfg.Self.Version),
		})
		return
	}
	answer := answerTo(c, &Member{Conn: conn, Hello: hello, Peer: c.peer})
	switch {
	case answer == nil:
	case answer.Refusal != "":
		h.refuse(c, conn, "node "+hello.Name(), answer)
	default:
		h.answer(c, conn, answer)
	}
}
