package tcpstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection of a [Client]. A goroutine reads the answers, in the order of the requests, also those that
// nobody waits for any more: a call that gave up leaves the connection in order.
type link struct {
	conn  net.Conn
	token chan struct{} // held while a request is sent, so that requests and calls have the same order
	held  atomic.Bool   // somebody has it alone
	ended chan struct{} // closed when the goroutine is gone

	mu    sync.Mutex
	cond  sync.Cond
	calls []func(*reader) error // to be read, in this order; an error ends the link
	err   error                 // why it ended
}

type reader = bufio.Reader

// errHeld says that a link is held by another call.
var errHeld = errors.New("held")

// cutError says that a connection ended under a call.
type cutError struct{ cause error }

func (e *cutError) Error() string { return e.cause.Error() }
func (e *cutError) Unwrap() error { return e.cause }

func newLink(conn net.Conn) *link {
	l := &link{conn: conn, token: make(chan struct{}, 1), ended: make(chan struct{})}
	l.cond.L = &l.mu
	go l.read()
	return l
}

// read reads the answers until the link fails.
func (l *link) read() {
	defer close(l.ended)
	from := bufio.NewReader(l.conn)
	for {
		l.mu.Lock()
		for len(l.calls) == 0 && l.err == nil {
			l.cond.Wait()
		}
		if l.err != nil {
			l.mu.Unlock()
			return
		}
		call := l.calls[0]
		l.calls = l.calls[1:]
		l.mu.Unlock()
		if err := call(from); err != nil {
			l.fail(err)
		}
	}
}

// fail ends the link: calls that are not answered fail for the first reason that was given.
func (l *link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = why
		_ = l.conn.Close()
		l.cond.Signal()
	}
}

func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// expect has the goroutine read an answer.
func (l *link) expect(call func(*reader) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
	l.cond.Signal()
}

// send sends a request and has its answer read. Without being the holder, it does not send while somebody holds the
// link.
func (l *link) send(ctx context.Context, request []byte, holder bool, answer func(*reader) error) error {
	select {
	case l.token <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.token }()
	if !holder && l.held.Load() {
		return errHeld
	}
	if err := l.write(ctx, request); err != nil {
		return err
	}
	l.expect(answer)
	return nil
}

// write sends a request until ctx ends. One that is cut in the middle ends the link.
func (l *link) write(ctx context.Context, request []byte) error {
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		_ = l.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := l.conn.Write(request)
	if !stop() {
		<-late
		_ = l.conn.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && n == 0 {
		return cause
	}
	err = orCause(ctx, err)
	l.fail(err)
	return &cutError{err}
}

// settle waits until nobody else is about to send on a link that was just taken to be held.
func (l *link) settle(ctx context.Context) error {
	select {
	case l.token <- struct{}{}:
		<-l.token
		return nil
	case <-ctx.Done():
		l.held.Store(false)
		return context.Cause(ctx)
	}
}

// result is what came for a call. It travels by a channel: who gave up must not be written to.
type result[T any] struct {
	value T
	err   error
}

// roundTrip sends a request over a link that the caller holds, or that nobody else knows, and returns the answer.
func roundTrip[T any](ctx context.Context, l *link, request []byte, read func(*reader) (T, error)) (T, error) {
	return exchange(ctx, l, request, true, read)
}

// roundTripShared is roundTrip for a link that others use as well.
func roundTripShared[T any](ctx context.Context, l *link, request []byte, read func(*reader) (T, error)) (T, error) {
	return exchange(ctx, l, request, false, read)
}

func exchange[T any](ctx context.Context, l *link, request []byte, holder bool,
	read func(*reader) (T, error),
) (value T, err error) {
	done := make(chan result[T], 1)
	err = l.send(ctx, request, holder, func(from *reader) error {
		value, err := read(from)
		done <- result[T]{value, err}
		return err
	})
	if err != nil {
		return value, err
	}
	select {
	case r := <-done:
		return r.value, l.cut(r.err)
	case <-l.ended: // the goroutine ended before it came to this answer, or after
		select {
		case r := <-done:
			return r.value, l.cut(r.err)
		default:
			return value, &cutError{l.failure()}
		}
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// cut wraps what went wrong when an answer was read.
func (l *link) cut(err error) error {
	if err == nil {
		return nil
	}
	if why := l.failure(); why != nil {
		err = why // reading failed since the link was ended
	}
	return &cutError{err}
}

// cancelGrace is how long a call whose context has ended waits for the server to take that note, so that its connection
// is free again for the next call.
const cancelGrace = 250 * time.Millisecond

// lateAnswer is the answer to a WAIT or BARRIER.
type lateAnswer struct {
	link     *link
	mu       sync.Mutex
	came     bool // before it was cancelled
	canceled bool
	done     chan error
}

// wait sends a request that is answered late, over a link that the caller holds. With an error the link is not held any
// more.
func (l *link) wait(ctx context.Context, request []byte) error {
	late := &lateAnswer{link: l, done: make(chan error, 1)}
	err := l.send(ctx, request, true, late.read)
	if err != nil {
		l.held.Store(false)
		return err
	}
	select {
	case err = <-late.done:
	case <-l.ended:
		err = l.failure()
	case <-ctx.Done():
		return late.cancel(ctx)
	}
	if err != nil {
		l.held.Store(false)
		return &cutError{err}
	}
	return nil
}

// read reads 00, or after a cancellation 01, or 00 01 if both crossed.
func (a *lateAnswer) read(from *reader) error {
	b, err := from.ReadByte()
	a.mu.Lock()
	a.came = !a.canceled
	canceled := a.canceled
	a.mu.Unlock()
	want := answerReady
	if canceled {
		if want = answerCanceled; err == nil && b == answerReady {
			b, err = from.ReadByte()
		}
	}
	if err == nil && b != want {
		err = fmt.Errorf("it answered %d where %d was due", b, want)
	}
	if canceled && err == nil {
		a.link.held.Store(false)
	}
	a.done <- err
	return err
}

// cancel takes the request back. If the answer came before that, the wait was successful.
func (a *lateAnswer) cancel(ctx context.Context) error {
	a.mu.Lock()
	a.canceled = !a.came
	came := a.came
	a.mu.Unlock()
	if came {
		return a.link.cut(<-a.done)
	}
	cause := context.Cause(ctx)
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer stop()
	select {
	case a.link.token <- struct{}{}: // held: nobody else sends
		err := a.link.write(grace, []byte{opCancelWait})
		<-a.link.token
		if err != nil {
			a.link.fail(fmt.Errorf("cancel a wait: %w", err))
			return cause
		}
	case <-grace.Done():
	}
	select {
	case <-a.done:
	case <-a.link.ended:
	case <-grace.Done():
	}
	return cause
}
