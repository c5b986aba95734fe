package launcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/wire"
)

// said is what a node said.
type said[T any] struct {
	node *node
	what T
}

// collect takes an answer of each node until there are all, ctx ends or the job is over: in the nodes' order, with the
// names of those that gave none.
func collect[T any](ctx context.Context, h *head, answers <-chan said[T]) (list []said[T], silent []string) {
	by := make([]*said[T], len(h.nodes))
	for missing, waiting := len(by), true; missing > 0 && waiting; {
		select {
		case a := <-answers:
			if by[a.node.number] == nil {
				by[a.node.number] = &a
				missing--
			}
		case <-h.over:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	for i, a := range by {
		if a != nil {
			list = append(list, *a)
		} else {
			silent = append(silent, h.nodes[i].name)
		}
	}
	slices.Sort(silent)
	return list, silent
}

// look is what nodes are asked for by who looks at the job.
type look int

const (
	lookUsage look = iota
	lookStacks
	lookNCCL
	looks
)

// Limits of asking the nodes.
const lookAge = 900 * time.Millisecond // an answer so young is given again

var lookTimes = [looks]time.Duration{
	lookUsage:  2 * time.Second,  // for a node to answer
	lookStacks: 15 * time.Second, // the same where it looks into its ranks
	lookNCCL:   10 * time.Second, // the same where it asks NCCL
}

// looking asks the nodes of a job what somebody wants to know: only when somebody does, one question of a kind at a
// time, so that what takes long does not keep others waiting, and not more than about once a second.
type looking struct {
	questions [looks]struct {
		turn    sync.Mutex // guards what follows
		head    *head      // whose nodes were asked last
		at      time.Time
		answers []said[wire.Used]
		silent  []string
	}

	mu    sync.Mutex // guards what follows
	calls int
	open  map[int]chan said[wire.Used] // questions, by their numbers
}

// ask returns what the nodes answer, in their order, and the hosts that did not in time.
func (l *looking) ask(ctx context.Context, h *head, what look) ([]said[wire.Used], []string) {
	q := &l.questions[what]
	q.turn.Lock()
	defer q.turn.Unlock()
	if q.head == h && time.Since(q.at) < lookAge {
		return q.answers, q.silent
	}
	limit, cancel := context.WithTimeout(ctx, lookTimes[what])
	defer cancel()
	answers, call := l.begin(len(h.nodes))
	defer l.end(call)
	for i, n := range h.nodes {
		// who is lost does not answer
		_ = n.link.Send(&wire.Usage{Call: call, Stacks: what == lookStacks, RAS: what == lookNCCL, All: i == 0})
	}
	list, silent := collect(limit, h, answers)
	if ctx.Err() == nil {
		q.head, q.at, q.answers, q.silent = h, time.Now(), list, silent
	}
	return list, silent
}

func (l *looking) begin(nodes int) (answers chan said[wire.Used], call int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[int]chan said[wire.Used]{}
	}
	l.calls++
	l.open[l.calls] = make(chan said[wire.Used], nodes)
	return l.open[l.calls], l.calls
}

func (l *looking) end(call int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, call)
}

// hear takes an answer, if it is one to a question that is open.
func (l *looking) hear(n *node, m wire.Used) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.open[m.Call] <- said[wire.Used]{n, m}: // nil where nobody asks
	default: // it has answered already
	}
}
