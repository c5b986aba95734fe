package launcher

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

// chaos injects the faults of --chaos. A nil chaos does nothing.
type chaos struct {
	mu     sync.Mutex // guards what follows; taken before head.mu
	seed   int
	faults []*fault // by their times
	began  time.Time
}

// fault is one of them.
type fault struct {
	spec job.Fault
	job.Injection
	draw float64   // chooses among targets
	done time.Time // zero: not yet
}

func newChaos(s *Spec) *chaos {
	if s.Chaos == nil {
		return nil
	}
	c := &chaos{seed: cmp.Or(s.ChaosSeed, 1+rand.IntN(1<<30))}
	random := rand.New(rand.NewPCG(uint64(c.seed), 0)).Float64 // #nosec G404 -- it is to be repeatable
	for _, f := range s.Chaos {
		at := f.Moment(random)
		c.faults = append(c.faults, &fault{f, job.Injection{Fault: f.Text, At: job.Seconds(at)}, random(), time.Time{}})
	}
	slices.SortStableFunc(c.faults, func(a, b *fault) int { return cmp.Compare(a.At, b.At) })
	return c
}

// started is called when all ranks of an attempt run. It arms the faults that have not been injected yet.
func (c *chaos) started(h *head) {
	if c == nil {
		return
	}
	now := time.Now()
	var notes []string
	c.mu.Lock()
	if c.began.IsZero() {
		c.began = now
	}
	h.mu.Lock()
	for _, f := range c.faults {
		switch {
		case f.done.IsZero():
			h.arm(c.began.Add(time.Duration(f.At)).Sub(now), func() { c.inject(h, f) })
		case f.Why == "" && f.Recovery == 0:
			f.Recovery = job.Seconds(now.Sub(f.done))
			notes = append(notes, "chaos: "+f.String())
		}
	}
	h.mu.Unlock()
	c.mu.Unlock()
	for _, note := range notes {
		h.settings.notify(note)
	}
}

func (c *chaos) inject(h *head, f *fault) {
	c.mu.Lock()
	f.done = time.Now()
	f.At = job.Seconds(f.done.Sub(c.began))
	var act func()
	if f.spec.OnRank() {
		act = h.rankFault(f)
	} else {
		act = h.nodeFault(f)
	}
	note := "chaos: " + f.Fault + ": " + cmp.Or(f.Target, "not injected: "+f.Why)
	c.mu.Unlock()
	h.settings.notify(note)
	h.settings.emit(record.Event{Event: record.Fault, Text: note})
	if act != nil {
		act()
	}
}

// faultSignals are the signals of faults that are one.
var faultSignals = map[string]spec.Signal{
	"kill-agent": {Number: syscall.SIGKILL}, "stop-agent": {Number: syscall.SIGSTOP},
	"kill-node": {Number: syscall.SIGKILL, Group: true},
	"kill-rank": {Number: syscall.SIGKILL}, "stop-rank": {Number: syscall.SIGSTOP},
}

// rankFault chooses a running rank and returns what does the fault to it, or sets why it is skipped.
func (h *head) rankFault(f *fault) func() {
	var running []int
	h.mu.Lock()
	for rank := range h.plan.Load().Ranks {
		if _, ended := h.sup.Exit(rank); h.sup.PID(rank) != 0 && !ended && f.isTarget(strconv.Itoa(rank)) {
			running = append(running, rank)
		}
	}
	h.mu.Unlock()
	if running == nil {
		f.Why = "no rank " + f.spec.Target + " runs"
		return nil
	}
	rank := running[int(f.draw*float64(len(running)))]
	n := h.nodes[h.plan.Load().Ranks[rank].Node]
	f.Target = fmt.Sprintf("rank %d on %s", rank, n.name)
	return func() { _ = n.link.Send(&wire.Signal{Signal: faultSignals[f.spec.Kind], Ranks: []int{rank}}) }
}

// nodeFault is rankFault for a node with ranks.
func (h *head) nodeFault(f *fault) func() {
	targets := slices.DeleteFunc(slices.Clone(h.nodes), func(n *node) bool {
		return n.breakLink == nil || n.isLost() || !f.isTarget(n.name)
	})
	if len(targets) == 0 {
		f.Why = cmp.Or(f.spec.Target, "no other host") + " has no ranks under an agent of its own"
		return nil
	}
	n := targets[int(f.draw*float64(len(targets)))]
	f.Target = n.name
	if f.spec.Kind == "cut-link" {
		return n.breakLink
	}
	m := &wire.Signal{Signal: faultSignals[f.spec.Kind], Agent: true}
	if f.spec.Kind == "kill-node" {
		m.Ranks = h.plan.Load().Nodes[slices.Index(h.nodes, n)].Ranks
	}
	return func() { _ = n.link.Send(m) }
}

func (f *fault) isTarget(name string) bool { return f.spec.Target == "" || f.spec.Target == name }

// result returns the report; nil without --chaos.
func (c *chaos) result() *job.Chaos {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &job.Chaos{Seed: c.seed}
	for _, f := range c.faults {
		if f.done.IsZero() {
			f.Why = "the job had ended"
		}
		r.Faults = append(r.Faults, f.Injection)
	}
	return r
}

// breakableStream can lose all bytes of both directions from some moment on, as a broken network does.
type breakableStream struct {
	io.ReadWriteCloser
	broken atomic.Bool
}

func (b *breakableStream) Read(p []byte) (n int, err error) {
	for err == nil {
		if n, err = b.ReadWriteCloser.Read(p); !b.broken.Load() {
			break
		}
	}
	return n, err
}

func (b *breakableStream) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return len(p), nil
	}
	return b.ReadWriteCloser.Write(p)
}
