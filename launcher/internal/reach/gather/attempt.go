package gather

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/join"
)

// Bounds against peers that are no agents of the job.
const (
	// maxPeers may be there of which nobody knows who they are; one more takes the place
	// of the oldest.
	maxPeers = 512
	// peerTime is how long a peer has to prove the token and to say who it is.
	peerTime = 10 * time.Second
	// acceptPause follows a failed accept, as for want of descriptors.
	acceptPause = 10 * time.Millisecond
)

// attempt is one start of the command, with a port and a token of its own.
type attempt struct {
	cfg     *Config
	token   []byte
	port    net.Listener
	tls     *tls.Config
	command *command
	remove  func() // the invitation's file
	over    chan struct{}
	all     chan struct{} // closed when all have come, or one that cannot be
	work    sync.WaitGroup

	mu     sync.Mutex
	peers  list.List // of net.Conn, the oldest first: nobody knows who they are
	conns  []net.Conn
	failed error // why all is closed though not all have come
	closed bool
}

// newAttempt listens and starts the command.
func newAttempt(cfg *Config, bring bool, hear func(Word)) (*attempt, error) {
	token := make([]byte, 32)
	rand.Read(token) // never fails
	secure, err := join.TLS(token, forHead, forAgent)
	if err != nil {
		return nil, err
	}
	port, err := net.Listen("tcp", ":0") // #nosec G102 -- both families, where the host has both
	if err != nil {
		return nil, err
	}
	a := &attempt{
		cfg: cfg, token: token, port: port, tls: secure, conns: make([]net.Conn, len(cfg.Nodes)), remove: func() {},
		over: make(chan struct{}), all: make(chan struct{}),
	}
	invitation := &Invitation{
		Protocol: protocol, Version: cfg.Version, Token: token, Addrs: cfg.Addrs, Port: port.Addr().(*net.TCPAddr).Port,
		NodeIDs: cfg.Start.NodeIDs, Signals: cfg.Start.Signals, Within: cfg.Timeout,
	}
	if a.command, a.remove, err = startCommand(cfg, invitation, bring, hear); err != nil {
		port.Close()
		return nil, err
	}
	a.work.Go(a.accept)
	return a, nil
}

// wait waits until all have come, or it is known that they will not.
func (a *attempt) wait(ctx context.Context) ([]net.Conn, error) {
	var err error
	select {
	case <-a.all:
		err = a.failed
	case <-a.command.hopeless:
		err = errHopeless
	case <-a.command.ended:
		err = errEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.closePort()
	a.remove()
	for _, c := range a.conns {
		_ = c.SetDeadline(time.Now().Add(peerTime)) // the first has waited for the last
		_ = writeMessage(c, welcome{})              // one that has ended is noticed by who reads
		_ = c.SetDeadline(time.Time{})
	}
	return a.conns, nil
}

var (
	errEnded    = errors.New("the command has ended")
	errHopeless = errors.New("the command says that it will not be")
)

// explain says in words for the user why agents did not come.
func (a *attempt) explain(err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errLate):
		a.mu.Lock()
		defer a.mu.Unlock()
		late := a.cfg.late(missing(a.conns))
		if said := a.command.said.telling(); said != "" {
			late.Text += ": " + said
		}
		return late
	case errors.Is(err, errEnded), errors.Is(err, errHopeless):
		return a.command.explain(a.cfg)
	}
	return &Error{Text: printable.Text(err.Error())}
}

// closePort lets nobody come any more.
func (a *attempt) closePort() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.over)
		_ = a.port.Close()
		for e := a.peers.Front(); e != nil; e = e.Next() {
			_ = e.Value.(net.Conn).Close()
		}
	}
	a.mu.Unlock()
	a.work.Wait()
}

// close ends the attempt; agents that have come end, too, unless they were handed out.
func (a *attempt) close() {
	a.closePort()
	a.remove()
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.all:
		if a.failed == nil {
			return
		}
	default:
	}
	for _, c := range a.conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (a *attempt) accept() {
	for {
		conn, err := a.port.Accept()
		switch {
		case err == nil:
			a.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-a.over:
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// admit hears who somebody is, for whom another has to go where there are many.
func (a *attempt) admit(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		conn.Close()
		return
	}
	if a.peers.Len() >= maxPeers {
		oldest := a.peers.Front()
		_ = oldest.Value.(net.Conn).Close()
		a.peers.Remove(oldest)
	}
	peer := a.peers.PushBack(conn)
	a.work.Go(func() {
		secure, said, err := a.meet(conn)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.peers.Remove(peer)
		if err != nil || a.closed {
			conn.Close()
			return
		}
		a.take(secure, said)
	})
}

// meet has a peer prove the token and say who it is.
func (a *attempt) meet(conn net.Conn) (*tls.Conn, hello, error) {
	var said hello
	_ = conn.SetDeadline(time.Now().Add(peerTime))
	secure := tls.Server(conn, a.tls)
	err := secure.Handshake()
	if err == nil {
		err = readMessage(secure, &said)
	}
	return secure, said, err
}

// take takes an agent in, or says why not. The lock is held.
func (a *attempt) take(conn *tls.Conn, said hello) {
	node := find(a.cfg.Nodes, said.Node)
	if said.Node == "" {
		node = find(a.cfg.Nodes, said.Host)
	}
	name := said.name()
	switch {
	case said.Version != a.cfg.Version:
		a.refuse(conn, &Error{
			Text: fmt.Sprintf("gorun on %s is version %s, this one is %s", name,
				printable.Text(printable.Short(said.Version)), a.cfg.Version), again: true,
			Hint: "put the same gorun at the same place on all hosts",
		})
		return
	case node < 0:
		a.refuse(conn, &Error{Text: fmt.Sprintf("an agent came from %s, which is none of the job's hosts", name)})
		return
	case a.conns[node] != nil:
		a.refuse(conn, &Error{Text: fmt.Sprintf("two agents came from %s", name)})
		return
	}
	a.conns[node] = conn
	a.cfg.Came(node, true)
	if len(missing(a.conns)) == 0 {
		a.settle(nil)
	}
}

// refuse tells an agent that has proved the token why it is not wanted: the job cannot
// begin then. The lock is held.
func (a *attempt) refuse(conn net.Conn, why *Error) {
	_ = writeMessage(conn, welcome{Refusal: why.Text})
	_ = conn.Close()
	a.settle(why)
}

func (a *attempt) settle(err error) {
	select {
	case <-a.all:
	default:
		a.failed = err
		close(a.all)
	}
}
