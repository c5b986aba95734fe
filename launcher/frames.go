package launcher

import (
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/world"
)

// handleFrame handles a frame that the link's guard has let pass. An error loses the node.
func (h *head) handleFrame(n *node, f wire.Frame) error {
	switch f.Type {
	case wire.TypeOutput:
		h.signals.listen()
		rank, stream, p, err := f.Stream()
		if err == nil {
			err = h.onOutput(n, rank, stream, p)
		}
		return err
	case wire.TypeNotice:
		return handle(n, f, (*node).onNotice)
	case wire.TypeCredit:
		return handle(n, f, h.stdin.onCredit)
	case wire.TypeRunning:
		return handle(n, f, h.onRunning)
	case wire.TypeStartFailed:
		return handle(n, f, h.onStartFailed)
	case wire.TypeEnded:
		return handle(n, f, h.onEnded)
	case wire.TypeSpawn:
		<-h.startSent
		return handle(n, f, h.onSpawn)
	case wire.TypeGrown:
		return handle(n, f, h.onGrown)
	case wire.TypeExchange:
		<-h.startSent
		return handle(n, f, h.exchange.onExchange)
	case wire.TypeSuspend:
		return h.onSuspended()
	case wire.TypeSignal:
		return handle(n, f, h.onSignal)
	case wire.TypeSignalled:
		return handle(n, f, h.onEngineSignal)
	case wire.TypeOutputLost:
		return handle(n, f, h.onOutputLost)
	case wire.TypeHung:
		return handle(n, f, h.onHung)
	case wire.TypeStalled:
		return handle(n, f, h.onStalled)
	case wire.TypeUsed:
		return handle(n, f, h.onUsed)
	case wire.TypeMPI:
		return handle(n, f, h.onMPI)
	case wire.TypeCleanedUp:
		n.handler.Store(nil)
		return handle(n, f, h.onCleanedUp)
	}
	return wire.Violation("it sent an unexpected %s frame", f.Type)
}

func (h *head) onOutput(n *node, rank, stream int, p []byte) error {
	switch {
	case !h.hasRank(n, rank):
		return wire.Violation("it sent output of rank %d, which is not one of its ranks", rank)
	case stream != output.Stdout && stream != output.Stderr:
		return wire.Violation("it sent output of stream %d; ranks have 1 and 2", stream)
	case !h.credits[n.number].receive(stream, len(p)):
		return wire.Violation("it sent more output than it has credit for")
	}
	if h.logs == nil || h.logs.write(n, rank, stream, p) {
		h.console.Write(rank, stream, p)
	}
	h.nccl.observe(n, rank, stream, p)
	return nil
}

func (h *head) onRunning(n *node, r wire.Running) error {
	ev := job.Running{Node: n.number, PIDs: make(map[int]int, len(r.Ranks)), At: h.localTime(n, r.At)}
	for _, rank := range r.Ranks {
		if !h.hasRank(n, rank.Rank) || rank.PID < 0 {
			return wire.Violation("it reported that it runs rank %d as process %d", rank.Rank, rank.PID)
		}
		ev.PIDs[rank.Rank] = rank.PID
	}
	all := int(h.nodesStarted.Add(1)) == len(h.nodes) // each node reports once
	if all {
		h.mu.Lock()
		h.started = time.Now()
		h.mu.Unlock()
	}
	h.post(ev)
	if all {
		for _, member := range *h.members.Load() {
			h.warm(member)
		}
		h.chaos.started(h)
	}
	if !all || h.settings.Started == nil {
		return nil
	}
	p := h.plan.Load()
	pids := make([]int, len(p.Ranks))
	h.mu.Lock()
	for i := range pids {
		pids[i] = h.sup.PID(i)
	}
	h.mu.Unlock()
	h.settings.Started(p, pids)
	return nil
}

// onSuspended stops this process, too, when the ranks of all nodes are stopped, as Ctrl-Z does with
// a program. SIGCONT arrives as a signal.
func (h *head) onSuspended() error {
	if h.nodesToStop.Add(-1) != 0 {
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
}

// Other ranks may be about to wait in MPI for those of this node, hence NodeExited.
func (h *head) onCleanedUp(n *node, m wire.CleanedUp) error {
	h.exchange.NodeExited(n.number, h.plan.Load().ProcsOf(n.number))
	h.post(job.CleanedUp{Node: n.number, Orphans: h.labelOrphans(n, m.Orphans)})
	return nil
}

func (h *head) labelOrphans(n *node, left []string) []string {
	for i, text := range left {
		if left[i] = printable.Text(text); len(h.nodes) > 1 {
			left[i] = n.name + ": " + left[i]
		}
	}
	return left
}

func (h *head) onStartFailed(n *node, s wire.StartFailed) error {
	h.post(h.startFailedEvent(n, s))
	return nil
}

func (h *head) startFailedEvent(n *node, s wire.StartFailed) job.StartFailed {
	text := printable.Text(s.Text)
	if len(h.nodes) > 1 {
		text = n.name + ": " + text
	}
	rank, code := s.Rank, s.Code
	if !h.hasRank(n, rank) {
		rank = -1
	}
	if code < job.ExitLauncher || code > job.ExitNotFound {
		code = job.ExitLauncher
	}
	hint, at := printable.Text(s.Hint), h.localTime(n, s.At)
	return job.StartFailed{Node: n.number, Rank: rank, Code: code, Text: text, Hint: hint, At: at}
}

// hasRank reports whether a rank belongs to a node.
func (h *head) hasRank(n *node, rank int) bool {
	p := h.plan.Load()
	return rank >= 0 && rank < len(p.Ranks) && h.nodes[p.Ranks[rank].Node] == n
}

// hasProc reports whether a process of a world belongs to a node.
func (h *head) hasProc(n *node, p world.Proc) bool {
	rank, known := h.plan.Load().RankOf(p)
	return known && h.hasRank(n, rank)
}

// localTime converts a time of a node's clock, limited to the attempt's duration.
func (h *head) localTime(n *node, t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	t = n.clock.toLocal(t)
	switch now := time.Now(); {
	case t.After(now):
		return now
	case t.Before(h.began):
		return h.began
	}
	return t
}

// handle decodes a node's frame for a handler.
func handle[T any, M wire.PointerTo[T]](n *node, f wire.Frame, handler func(*node, T) error) error {
	var body T
	if err := f.Decode(M(&body)); err != nil {
		return wire.Violation("it sent a malformed %s frame: %v", f.Type, err)
	}
	return handler(n, body)
}
