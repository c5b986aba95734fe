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

// Limits of serving.
const (
	maxConns    = 32              // at the same time
	maxRequest  = 4 << 10         // bytes of a question
	askTime     = 5 * time.Second // to ask it
	answerTime  = 5 * time.Second // to take one part of the answer
	partingTime = 250 * time.Millisecond
)

// Entry is a job of this process in the registry.
type Entry struct {
	path     string
	dir      int
	listener *net.UnixListener
	answer   Handler
	ctx      context.Context
	end      context.CancelFunc
	busy     sync.WaitGroup
	places   chan struct{}

	mu    sync.Mutex
	conns map[*net.UnixConn]bool
	over  bool
}

// Handler answers a question. It may send several parts, and go on until ctx ends: because
// whoever asked has gone, or the entry is being closed. Each error of send is the end.
type Handler func(ctx context.Context, question Request, send func(part any) error)

// Register makes an entry for the job in the first of the places that allows it, and serves it until Close. announce is
// told of a directory before it is made, and again once it is there; it is removed by Close, and should be removed when
// this process is killed.
func Register(places []string, id string, announce func(path string), answer Handler) (*Entry, error) {
	if !isID(id) {
		return nil, fmt.Errorf("register job: %q is no id of %d hexadecimal digits", id, idDigits)
	}
	path, dir, err := makePrivate(places, id, announce)
	if err != nil {
		return nil, fmt.Errorf("register job %s: %w", id, err)
	}
	e := &Entry{
		path: path, dir: dir, answer: answer, places: make(chan struct{}, maxConns),
		conns: map[*net.UnixConn]bool{},
	}
	e.ctx, e.end = context.WithCancel(context.Background())
	if e.listener, err = e.listen(); err != nil {
		e.remove()
		return nil, fmt.Errorf("register job %s in %s: %w", id, path, err)
	}
	e.busy.Go(e.accept)
	return e, nil
}

// Path is the entry's directory.
func (e *Entry) Path() string { return e.path }

// listen makes the socket, with mode 0600 from its first moment on, and gives it its name
// when somebody who connects is heard.
func (e *Entry) listen() (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	l, err := private.Listen(e.ctx, "unix", within(e.dir, fresh))
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	if err := unix.Renameat(e.dir, fresh, e.dir, socket); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// Close ends the entry. Those who follow get what was sent so far, if they read.
func (e *Entry) Close() {
	e.end()
	_ = e.listener.Close()
	e.mu.Lock()
	e.over = true
	for conn := range e.conns {
		_ = conn.SetDeadline(time.Now().Add(partingTime))
	}
	e.mu.Unlock()
	e.busy.Wait()
	e.remove()
}

// remove removes the directory, if it is still this one that has the name.
func (e *Entry) remove() {
	e.end()
	for _, name := range []string{fresh, socket} {
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
			e.take(conn)
		case errors.Is(err, net.ErrClosed) || e.ctx.Err() != nil:
			return
		default: // out of descriptors, say
			select {
			case <-e.ctx.Done():
			case <-time.After(partingTime):
			}
		}
	}
}

// take serves a connection beside all others, if it is this user's and not one too many.
func (e *Entry) take(conn *net.UnixConn) {
	select {
	case e.places <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := peer(conn); err != nil || e.over {
		_ = conn.Close()
		<-e.places
		return
	}
	e.conns[conn] = true
	e.busy.Go(func() { e.serve(conn) })
}

func (e *Entry) serve(conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(e.ctx)
	gone := make(chan struct{})
	defer func() {
		cancel()
		_ = conn.Close()
		<-gone
		e.mu.Lock()
		delete(e.conns, conn)
		e.mu.Unlock()
		<-e.places
	}()
	e.limit(conn.SetReadDeadline, askTime)
	question, err := readQuestion(conn)
	if err != nil {
		close(gone)
		return
	}
	e.limit(conn.SetReadDeadline, 0)
	go func() { // nobody says anything more, until he hangs up
		defer close(gone)
		defer cancel()
		_, _ = conn.Read(make([]byte, 1))
	}()
	e.answer(ctx, question, untilItFails(func(part any) error {
		e.limit(conn.SetWriteDeadline, answerTime)
		return writePart(conn, part)
	}))
}

// untilItFails sends nothing more once that has failed: a reader that goes on later would miss a part, and take the
// next one for what follows.
func untilItFails(send func(part any) error) func(part any) error {
	var failed error
	return func(part any) error {
		if failed == nil {
			failed = send(part)
		}
		return failed
	}
}

// limit sets a deadline, unless the entry has set the last one; 0 is none.
func (e *Entry) limit(set func(time.Time) error, limit time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
	case limit == 0:
		_ = set(time.Time{})
	default:
		_ = set(time.Now().Add(limit))
	}
}

// errOther is a peer who is another user.
var errOther = errors.New("the socket's other end is another user's")

// peer is the process at the other end, which must be this user's; 0 where it is in
// another container.
func peer(conn *net.UnixConn) (pid int, err error) {
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
		return 0, errOther
	}
	return int(ucred.Pid), nil
}
