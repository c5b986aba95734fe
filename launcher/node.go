package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/bootstrap"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// node is a node of the job, with the link to its agent. After attach, fields that are not atomic
// or guarded belong to the session's goroutine, and err to whoever has seen lost closed.
type node struct {
	number int // in the plan
	index  int // in Spec.Hosts
	host   hosts.Host
	name   string // for messages
	joined bool   // it has a command line of its own
	kind   wire.Peer
	// engine started this node's agent; nil: no resource manager did.
	engine *engineAgents
	link   *wire.Link
	// breakLink makes it lose all bytes; nil without --chaos, and for nodes without an agent that was started for them.
	breakLink func()
	// served receives the error of an agent in this process; nil for other agents.
	served chan error
	// end describes why the link ended, if anything is known; may be nil.
	end func() string

	// copied is what --copy sent; nil for nothing.
	copied *bootstrap.JobDir

	notify func(string)
	// received is called for each frame; nil: for none.
	received func(wire.Type)
	notices  atomic.Int32 // of the agent, since the last start of ranks
	facts    job.Facts
	// addresses are those that the node reported.
	addresses []netip.Addr

	linked   atomic.Bool // listen was called
	answers  chan wire.Frame
	lost     chan struct{} // closed when the link has ended
	lostOnce sync.Once
	err      error // the reason, once lost is closed
	// while ranks run
	handler          atomic.Pointer[func(wire.Frame) error]
	warmed           atomic.Bool  // it was sent Warm
	missedHeartbeats atomic.Int32 // since the last frame
	suspended        atomic.Bool  // by a resource manager: silence means nothing
	abandoned        atomic.Value // a string: the reason
	clock            clock
}

// traceFrames implements WithFrames.
func (c *call) traceFrames(n *node) {
	if !c.settings.Frames {
		return
	}
	n.received = func(t wire.Type) {
		if t != wire.TypeOutput {
			c.settings.detail(fmt.Sprintf("%s: from %s: %s", c.elapsed(), n.name, t))
		}
	}
	n.link.OnSend(func(t wire.Type) {
		c.settings.detail(fmt.Sprintf("%s: to %s: %s", c.elapsed(), n.name, t))
	})
}

// maxAnswers limits unread answers: a node gets one request at a time, except for the store's.
const maxAnswers = 4

// listen starts reading the node's frames.
func (n *node) listen() {
	n.answers, n.lost = make(chan wire.Frame, maxAnswers), make(chan struct{})
	n.linked.Store(true)
	go n.readLoop()
}

func (n *node) readLoop() {
	for {
		f, err := n.link.Read()
		if n.abandoned.Load() != nil { // frames after that are a consequence
			return
		}
		if err == nil {
			n.missedHeartbeats.Store(0)
			if n.received != nil {
				n.received(f.Type)
			}
			err = n.dispatch(f)
		}
		if err != nil {
			n.markLost(err)
			if errors.As(err, new(*wire.ViolationError)) {
				go n.link.Close() // Close waits for Read
			}
			return
		}
	}
}

func (n *node) markLost(err error) {
	n.lostOnce.Do(func() {
		n.err = err
		close(n.lost)
	})
}

// dispatch passes a frame to the running job or to the waiting request.
func (n *node) dispatch(f wire.Frame) error {
	if f.Type == wire.TypePong {
		return handle(n, f, (*node).onPong)
	}
	if handler := n.handler.Load(); handler != nil {
		return (*handler)(f)
	}
	switch f.Type {
	case wire.TypeNotice:
		return handle(n, f, (*node).onNotice)
	case wire.TypeSignalled:
		return handle(n, f, n.engine.onSignal)
	case wire.TypeSignal:
		return errInterrupted
	}
	if f.Type.IsLate() { // of the last attempt
		return nil
	}
	f.Body = bytes.Clone(f.Body) // the reader reuses it
	select {
	case n.answers <- f:
		return nil
	default:
		return fmt.Errorf("an unexpected %s frame", f.Type)
	}
}

// errInterrupted is the error of a node whose user ends it while no ranks run.
var errInterrupted = wire.Violation("its gorun was interrupted")

// maxNotices limits the lines printed for an agent per start of ranks.
const maxNotices = 1000

func (n *node) onNotice(m wire.Notice) error {
	switch count := n.notices.Add(1); {
	case count <= maxNotices:
		n.notify(m.Text)
	case count == maxNotices+1:
		n.notify(fmt.Sprintf("printed more than %d lines; the rest is not shown", maxNotices))
	default:
		n.notices.Store(maxNotices + 1) // prevent an overflow
	}
	return nil
}

func (n *node) onPong(p wire.Pong) error {
	n.clock.sample(p.Sent, p.At, time.Now())
	return nil
}

// Answers that arrived before the link was lost come first.
func (n *node) nextAnswer() (wire.Frame, error) {
	select {
	case f := <-n.answers:
		return f, nil
	default:
	}
	select {
	case f := <-n.answers:
		return f, nil
	case <-n.lost:
		return wire.Frame{}, n.err
	}
}

// request sends a request and waits for the answer.
func (n *node) request(question, answer wire.Message) error {
	if err := n.send(question); err != nil {
		return err
	}
	return n.receive(answer)
}

func (n *node) send(m wire.Message) error {
	if err := n.link.Send(m); err != nil {
		return n.goneError(err)
	}
	return nil
}

// receive waits for an answer and handles notices that come before it.
func (n *node) receive(answer wire.Message) error {
	for {
		f, err := n.nextAnswer()
		switch {
		case err != nil:
			return n.goneError(err)
		case f.Type == answer.Type():
			return f.Decode(answer)
		case f.Type == wire.TypeNotice:
			if err := handle(n, f, (*node).onNotice); err != nil {
				return err
			}
		case f.Type.IsLate(): // of the last attempt
		default:
			return failure(fmt.Sprintf("the agent sent a %s frame instead of a %s frame", f.Type,
				answer.Type()))
		}
	}
}

func (n *node) goneError(err error) error {
	text := "lost the agent: "
	if n.served != nil {
		text = "lost the agent on this host: "
	}
	return failure(text + n.lossText(err))
}

func (n *node) lossText(err error) string {
	if broken, ok := errors.AsType[*wire.ViolationError](err); ok {
		return printable.Text(broken.Text)
	}
	if n.served != nil {
		_ = n.link.Close()
		if served := <-n.served; served != nil {
			err = served
		}
		n.served <- nil
	}
	if silence, ok := n.abandoned.Load().(string); ok {
		return silence
	}
	text := printable.Error(err)
	if remote.IsEnd(err) || errors.Is(err, io.ErrClosedPipe) {
		text = "its connection ended"
	}
	if n.end != nil {
		if more := strings.TrimSpace(n.end()); more != "" {
			text += ": " + more
		}
	}
	return printable.Text(text)
}

// closeLimit limits the orderly close of a connection, which may be cut.
const closeLimit = time.Second

// close ends the agent and thereby the node's part of the job.
func (n *node) close() {
	switch {
	case n.link == nil: // never reached
	case n.served != nil:
		_ = n.link.Close()
		<-n.served
	default:
		n.removeCopies()
		n.closeLink()
	}
}

// removeCopies removes what --copy sent; the host continues without us if that takes long.
func (n *node) removeCopies() {
	if n.copied == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = n.copied.Remove(ctx)
}

// closeLink closes the link, waiting at most closeLimit.
func (n *node) closeLink() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = n.link.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}

func (n *node) hasAddress(addr string) bool {
	return slices.ContainsFunc(n.addresses, func(a netip.Addr) bool { return a.Unmap().String() == addr })
}
