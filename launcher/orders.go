package launcher

import (
	"syscall"
	"time"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// execute executes the supervisor's orders and returns its notes.
func (h *head) execute(orders []job.Order) (notes []string) {
	for _, o := range orders {
		switch o := o.(type) {
		case job.Note:
			notes = append(notes, o.Text)
		case job.Signal:
			h.broadcast(&wire.Signal{Signal: o.Signal})
		case job.Kill:
			h.broadcast(&wire.Kill{})
		case job.Cleanup:
			_ = h.nodes[o.Node].link.Send(&wire.Cleanup{Grace: o.Grace}) // readLoop notices a lost link
		case job.Arm:
			if t := h.armed[o.Timer]; t != nil {
				t.Stop()
			}
			h.armed[o.Timer] = h.arm(o.After, func() { h.timerExpired(o.Timer) })
		case job.Suspend:
			h.nodesToStop.Store(int32(len(h.nodes)))
			h.broadcast(&wire.Suspend{})
		case job.Resume:
			h.nodesToStop.Store(0) // an answer that comes late stops nothing
			h.broadcast(&wire.Signal{Signal: spec.Signal{Number: syscall.SIGCONT, Group: true}})
		}
	}
	return notes
}

// broadcast sends a message to all nodes. A lost node is reported by its link's reader.
func (h *head) broadcast(m wire.Message) {
	for _, n := range h.nodes {
		_ = n.link.Send(m)
	}
}

// armInitial executes the supervisor's initial orders, which are timers.
func (h *head) armInitial(orders []job.Order) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(listenDelay, h.signals.listen)
	h.execute(orders)
}

func (h *head) arm(after time.Duration, do func()) *time.Timer {
	t := time.AfterFunc(after, do)
	h.timers = append(h.timers, t)
	return t
}

// timerExpired posts an expired timer. At the job's deadline it may first report what the ranks do.
func (h *head) timerExpired(timer job.Timer) {
	at := time.Now() // before the inspection, which ranks may not survive
	if timer == job.TimerDeadline && h.spec.StacksAtTimeout {
		h.inspectRanks(0, true, func(found *job.Hang) {
			h.settings.notify("stack traces at the deadline (--get-stack-traces):")
			for _, line := range job.DescribeActivity(found.Ranks) {
				h.settings.notify(line)
			}
			h.collectHang(found)
			h.post(job.Expired{Timer: timer, At: at})
		})
		return
	}
	if timer == job.TimerDeadline {
		h.collectFailure()
	}
	h.post(job.Expired{Timer: timer, At: at})
}

func (h *head) stopTimers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.timers {
		t.Stop()
	}
}
