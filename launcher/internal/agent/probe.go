package agent

import (
	"context"
	"fmt"
	"os"
	"sync"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/wire"
)

// probing finds out which nodes can reach each other, before the job starts. Answers are made on other goroutines,
// in order.
type probing struct {
	// Owned by the agent's loop.
	ctx    context.Context
	cancel context.CancelFunc
	last   chan struct{} // closed when the last answer was sent
	closed bool

	making   sync.Mutex // held while an answer is made; guards all below
	listener *probe.Listener
	free     *probe.Listener // at a random port; nil: listener is
	own      []probe.Candidate
}

// probe handles a Probe frame, after the one before.
func (a *Agent) probe(p wire.Probe) error {
	b := &a.probing
	if b.closed && a.job != nil && a.job.cleanedUp.Load() { // the next attempt may have other nodes
		b.reopen()
	}
	if b.closed {
		return fmt.Errorf("agent: %s frame after the end of probing", p.Type())
	}
	if err := a.checkProbe(&p); err != nil {
		return err
	}
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	before, sent := b.last, make(chan struct{})
	b.last = sent
	go func() {
		defer close(sent)
		if before != nil {
			<-before
		}
		if r, ok := b.make(p); ok {
			_ = a.link.Send(&r) // the head may be gone
		}
	}()
	return nil
}

// make makes an answer, unless probing has ended.
func (b *probing) make(p wire.Probe) (r wire.Reached, ok bool) {
	b.making.Lock()
	defer b.making.Unlock()
	if b.ctx.Err() != nil {
		return r, false
	}
	if err := b.answer(p, &r); err != nil {
		r = wire.Reached{Error: err.Error()}
	}
	return r, true
}

func (b *probing) answer(p wire.Probe, r *wire.Reached) error {
	if p.Listen || b.own == nil {
		if err := b.listAddresses(r, p.Names); err != nil {
			return err
		}
	}
	if p.Listen {
		if err := b.listen(p); err != nil {
			return err
		}
		if r.Port = b.listener.Port(); b.free != nil {
			r.Free = b.free.Port()
		}
		r.Candidates = b.own
	}
	if p.Measure {
		r.Measured = probe.Measure(b.ctx, p.Key, p.Targets, b.own)
		return nil
	}
	r.Answers = probe.Dial(b.ctx, p.Key, p.Targets, b.own, probe.Limits{Timeout: p.Timeout, Patience: p.Patience})
	return nil
}

// listAddresses lists this node's addresses and selects those that the user named.
func (b *probing) listAddresses(r *wire.Reached, names []string) (err error) {
	if b.own, err = probe.Candidates(os.DirFS("/")); err != nil {
		return err
	}
	for _, name := range names {
		var note string
		if b.own, note, err = probe.MarkNamed(b.ctx, b.own, name); err != nil {
			return err
		}
		if note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	return nil
}

// listen answers at the port that the user named and, as a firewall may open only that one, at a random port.
func (b *probing) listen(p wire.Probe) (err error) {
	b.stopListening()
	b.listener, err = probe.Listen(p.Key, p.Node, p.Port)
	if p.Port == 0 {
		return err
	}
	if err != nil { // opening the store will report it
		b.listener, err = probe.Listen(p.Key, p.Node, 0)
		return err
	}
	b.free, err = probe.Listen(p.Key, p.Node, 0)
	return err
}

func (b *probing) stopListening() {
	for _, l := range []**probe.Listener{&b.listener, &b.free} {
		if *l != nil {
			(*l).Close()
			*l = nil
		}
	}
}

// reopen makes probing possible again after close.
func (b *probing) reopen() {
	if b.last != nil {
		<-b.last
	}
	b.ctx, b.cancel, b.last, b.own, b.closed = nil, nil, nil, nil, false
}

// close ends probing and stops listening.
func (b *probing) close() {
	b.closed = true
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.making.Lock()
	defer b.making.Unlock()
	b.stopListening()
}
