package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/bootstrap"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// node is one node of a job as the head sees it: the way to its agent, and what that
// said.
type node struct {
	number int // in the plan
	index  int // in the wish
	host   hosts.Host
	name   string // for messages
	joined bool   // it was started by a command line of its own
	kind   wire.Peer
	// engine has the agents that a resource manager started, this node's among them; nil:
	// it did not.
	engine *engineAgents
	link   *wire.Link
	// served is how an agent in this process ended; nil for one elsewhere.
	served chan error
	// end says more of why a link ended, where somebody knows; nil for nobody.
	end func() string

	// copied is what --copy sent there; nil for nothing.
	copied *bootstrap.JobDir

	notify  func(string)
	notices atomic.Int32 // of the agent, since ranks were started last
	facts   job.Facts
	// addresses are those that the node said it has.
	addresses []netip.Addr

	linked           atomic.Bool // there is a link
	answers          chan wire.Frame
	lost             chan struct{} // closed when the link has ended
	lostOnce         sync.Once
	err              error // why, once lost is closed
	handler          atomic.Pointer[func(wire.Frame) error]
	missedHeartbeats atomic.Int32 // heartbeats since something was heard
	progressSigns    atomic.Int64 // of Pong
	suspended        atomic.Bool  // a resource manager has suspended it: silence means nothing
	abandoned        atomic.Value // a text: it was given up for being silent
	clock            clock
}

// hostName is the node's name in plans and labels: what it calls itself where it is this
// host, else what the user called it, by which he can log in.
func (n *node) hostName(own string) string {
	if n.host.Here {
		return own
	}
	return n.host.Name
}

// linkTo takes up the link to an agent of a kind, which is held to what such may send.
func (n *node) setLink(link *wire.Link, kind wire.Peer) {
	n.link, n.kind = link, kind
	link.Guard(kind)
}

// answersAhead is how many answers a node may be ahead of who asks: one, as it is
// asked one thing at a time, but for the store's.
const maxAnswers = 4

// listen reads the node's frames from now on.
func (n *node) listen() {
	n.answers, n.lost = make(chan wire.Frame, maxAnswers), make(chan struct{})
	n.linked.Store(true)
	go n.readLoop()
}

func (n *node) readLoop() {
	for {
		f, err := n.link.Read()
		if n.abandoned.Load() != nil { // what it still says is the consequence
			return
		}
		if err == nil {
			n.missedHeartbeats.Store(0)
			err = n.dispatch(f)
		}
		if err != nil {
			n.markLost(err)
			if errors.As(err, new(*wire.ViolationError)) {
				go n.link.Close() // it would wait for whoever reads
			}
			return
		}
	}
}

// lose gives the node up.
func (n *node) markLost(err error) {
	n.lostOnce.Do(func() {
		n.err = err
		close(n.lost)
	})
}

// take passes a frame on: to the running job, else to who asked.
func (n *node) dispatch(f wire.Frame) error {
	if f.Type == wire.TypePong {
		return handle(n, f, (*node).onPong)
	}
	if hear := n.handler.Load(); hear != nil {
		return (*hear)(f)
	}
	switch f.Type {
	case wire.TypeNotice:
		return handle(n, f, (*node).onNotice)
	case wire.TypeSignalled:
		return handle(n, f, n.engine.onSignal)
	case wire.TypeSignal: // no ranks run that could get it
		return errInterrupted
	}
	if f.Type.IsLate() { // of an attempt that is over
		return nil
	}
	f.Body = bytes.Clone(f.Body) // the reader uses it again
	select {
	case n.answers <- f:
		return nil
	default:
		return fmt.Errorf("an unexpected %s frame", f.Type)
	}
}

// errInterrupted is a node whose user ends it while there is no job to be ended.
var errInterrupted = wire.Violation("its gorun was interrupted")

// mostNotices is how many lines of an agent are shown from one start of ranks to the next.
const maxNotices = 1000

// notice shows what an agent says.
func (n *node) onNotice(m wire.Notice) error {
	switch said := n.notices.Add(1); {
	case said <= maxNotices:
		n.notify(m.Text)
	case said == maxNotices+1:
		n.notify(fmt.Sprintf("has said more than %d lines; the others are not shown", maxNotices))
	default:
		n.notices.Store(maxNotices + 1) // it never overflows
	}
	return nil
}

func (n *node) onPong(p wire.Pong) error {
	n.progressSigns.Store(p.Progress)
	n.clock.sample(p.Sent, p.At, time.Now())
	return nil
}

// next is the frame that comes next from the agent.
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

// ask sends a question and waits for its answer.
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

// receive waits for an answer; notices may come before it.
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
		case f.Type.IsLate(): // of an attempt that is over
		default:
			return failure(fmt.Sprintf("the agent sent a %s frame instead of a %s frame", f.Type,
				answer.Type()))
		}
	}
}

// gone says why the agent is gone, if it said so itself.
func (n *node) goneError(err error) error {
	text := "the agent is gone: "
	if n.served != nil {
		text = "the agent on this host is gone: "
	}
	return failure(text + n.lossText(err))
}

func (n *node) lossText(err error) string {
	if broken := (*wire.ViolationError)(nil); errors.As(err, &broken) {
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
	text := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) {
		text = "its connection has ended"
	}
	if n.end != nil {
		if more := n.end(); more != "" {
			text += ": " + more
		}
	}
	return printable.Text(text)
}

// closeLimit is how long the end of a connection may take: one that was cut may never
// end in order.
const closeLimit = time.Second

// close ends the agent, which ends whatever of the job is left there.
func (n *node) close() {
	switch {
	case n.link == nil: // it was never reached
	case n.served != nil:
		_ = n.link.Close()
		<-n.served
	default:
		n.removeCopies()
		n.closeLink(closeLimit)
	}
}

// tidy removes what --copy sent; where that takes long the host goes on by itself.
func (n *node) removeCopies() {
	if n.copied == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = n.copied.Remove(ctx)
}

// hangUp ends the connection and waits so long until that is done.
func (n *node) closeLink(limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = n.link.Close()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

func (n *node) hasAddress(addr string) bool {
	return slices.ContainsFunc(n.addresses, func(a netip.Addr) bool { return a.Unmap().String() == addr })
}
