package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a server.
const (
	maxConns       = 32              // at the same time
	maxRequest     = 4 << 10         // bytes
	requestTimeout = 5 * time.Second // to send a request
	partTimeout    = 5 * time.Second // to receive one part of the response
	closeTimeout   = 250 * time.Millisecond
)

// Entry is a job of this process in the registry.
type Entry struct {
	path     string
	dir      int // a descriptor
	listener *net.UnixListener
	handler  Handler
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	slots    chan struct{}

	mu     sync.Mutex
	conns  map[*net.UnixConn]bool
	closed bool
}

// Handler responds to a request with any number of parts. ctx ends when the client disconnects or the entry is closed.
// A handler should return after an error of send.
type Handler func(ctx context.Context, request Request, send func(part any) error)

// Register makes an entry for a job in the first suitable place, and serves requests until Close. It calls announce
// with a directory before and after making it. Close removes the directory; the caller should have it removed if this
// process is killed.
func Register(places []string, id string, announce func(path string), handler Handler) (*Entry, error) {
	if !isID(id) {
		return nil, fmt.Errorf("register job: %q is not an id of %d hexadecimal digits", id, idDigits)
	}
	path, dir, err := makePrivate(places, id, announce)
	if err != nil {
		return nil, fmt.Errorf("register job %s: %w", id, err)
	}
	e := &Entry{
		path: path, dir: dir, handler: handler, slots: make(chan struct{}, maxConns),
		conns: map[*net.UnixConn]bool{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if e.listener, err = e.listen(); err != nil {
		e.remove()
		return nil, fmt.Errorf("register job %s in %s: %w", id, path, err)
	}
	e.work.Go(e.accept)
	return e, nil
}

// Path returns the entry's directory.
func (e *Entry) Path() string { return e.path }

// listen makes the socket, with mode 0600 from the start, and renames it once connections are queued.
func (e *Entry) listen() (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	l, err := private.Listen(e.ctx, "unix", pathIn(e.dir, newSocket))
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	if err := unix.Renameat(e.dir, newSocket, e.dir, socket); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// Close removes the entry, and then closes it: whose connection ends knows that the job is listed no more. Clients
// still receive what was sent before.
func (e *Entry) Close() {
	e.remove()
	_ = e.listener.Close()
	e.mu.Lock()
	e.closed = true
	for conn := range e.conns {
		_ = conn.SetDeadline(time.Now().Add(closeTimeout))
	}
	e.mu.Unlock()
	e.work.Wait()
}

// remove removes the directory, unless another one has its name now.
func (e *Entry) remove() {
	defer e.cancel()
	for _, name := range []string{newSocket, socket} {
		_ = unix.Unlinkat(e.dir, name, 0)
	}
	var own, named unix.Stat_t
	if unix.Fstat(e.dir, &own) == nil && unix.Lstat(e.path, &named) == nil && own.Dev == named.Dev &&
		own.Ino == named.Ino {
		_ = unix.Rmdir(e.path)
	}
	_ = unix.Close(e.dir)
}

func (e *Entry) accept() {
	for {
		conn, err := e.listener.AcceptUnix()
		switch {
		case err == nil:
			e.start(conn)
		case errors.Is(err, net.ErrClosed) || e.ctx.Err() != nil:
			return
		default: // such as too many open files
			select {
			case <-e.ctx.Done():
			case <-time.After(closeTimeout):
			}
		}
	}
}

// start serves a connection of this user on its own goroutine, up to maxConns of them.
func (e *Entry) start(conn *net.UnixConn) {
	select {
	case e.slots <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := peerPID(conn); err != nil || e.closed {
		_ = conn.Close()
		<-e.slots
		return
	}
	e.conns[conn] = true
	e.work.Go(func() { e.serve(conn) })
}

func (e *Entry) serve(conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(e.ctx)
	disconnected := make(chan struct{})
	defer func() {
		cancel()
		_ = conn.Close()
		<-disconnected
		e.mu.Lock()
		delete(e.conns, conn)
		e.mu.Unlock()
		<-e.slots
	}()
	e.setTimeout(conn.SetReadDeadline, requestTimeout)
	request, err := readRequest(conn)
	if err != nil {
		close(disconnected)
		return
	}
	e.setTimeout(conn.SetReadDeadline, 0)
	go func() { // the client sends nothing more until it disconnects
		defer close(disconnected)
		defer cancel()
		_, _ = conn.Read(make([]byte, 1))
	}()
	e.handler(ctx, request, untilError(func(part any) error {
		e.setTimeout(conn.SetWriteDeadline, partTimeout)
		return writePart(conn, part)
	}))
}

// untilError sends nothing after an error: a client that reads on would miss a part.
func untilError(send func(part any) error) func(part any) error {
	var failed error
	return func(part any) error {
		if failed == nil {
			failed = send(part)
		}
		return failed
	}
}

// setTimeout sets a deadline, unless Close has; 0 is no timeout.
func (e *Entry) setTimeout(set func(time.Time) error, limit time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
	case limit == 0:
		_ = set(time.Time{})
	default:
		_ = set(time.Now().Add(limit))
	}
}

// errOtherUser reports that the peer is another user.
var errOtherUser = errors.New("the peer belongs to another user")

// peerPID returns the process at the other end, which must be this user's; 0 if it is in another PID namespace.
func peerPID(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var ucred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		ucred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	switch {
	case failed != nil:
		return 0, os.NewSyscallError("getsockopt SO_PEERCRED", failed)
	case int(ucred.Uid) != os.Geteuid():
		return 0, errOtherUser
	}
	return int(ucred.Pid), nil
}
