package launcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/wire"
)

// answer is a node's answer to a request.
type answer[T any] struct {
	node *node
	body T
}

// collect returns one answer of each node, in the nodes' order, and the names of nodes that are lost, or gave none
// before ctx ended or the job was over.
func collect[T any](ctx context.Context, h *head, answers <-chan answer[T]) (list []answer[T], silent []string) {
	by, missing := map[*node]*answer[T]{}, map[*node]bool{}
	for _, n := range h.nodes {
		if !n.isLost() {
			missing[n] = true
		}
	}
	take := func(a answer[T]) {
		if by[a.node] == nil {
			by[a.node] = &a
			delete(missing, a.node)
		}
	}
	for waiting := true; len(missing) > 0 && waiting; {
		select {
		case a := <-answers:
			take(a)
		case <-h.over:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	for len(missing) > 0 && len(answers) > 0 { // they came before the end of the wait
		take(<-answers)
	}
	for _, n := range h.nodes {
		if a := by[n]; a != nil {
			list = append(list, *a)
		} else {
			silent = append(silent, n.name)
		}
	}
	slices.Sort(silent)
	return list, silent
}

// queryKind is what a query asks of nodes.
type queryKind int

const (
	queryUsage queryKind = iota
	queryStacks
	queryNCCL
	querySigns
	queryCause // signs with stacks and GPUs
	queryMetrics
	queryEvidence
	queryDumps // evidence with new files of flight recorders
	numQueryKinds
)

// Limits of asking the nodes.
const maxAnswerAge = 900 * time.Millisecond // maxAnswerAge is how long answers are reused.

// Limits of the bytes of evidence from one node, which grow with fewer nodes: all of it is held here.
const (
	minEvidence = 64 << 10
	maxEvidence = 20 << 20
)

var queryTimeouts = [numQueryKinds]time.Duration{
	queryUsage:  2 * time.Second,  // for a node to answer
	queryStacks: 15 * time.Second, // the same where it looks into its ranks
	queryNCCL:   10 * time.Second, // the same where it asks NCCL
	querySigns:  5 * time.Second,
	queryCause:  15 * time.Second,

	queryMetrics:  6 * time.Second, // Prometheus waits for 10 s
	queryEvidence: 2 * time.Second,
	queryDumps:    4 * time.Second,
}

// queries queries the nodes of a running job on demand: one query of a kind at a time, so that slow
// kinds do not delay others, and at most about one a second.
type queries struct {
	// of the last query of each kind
	cache [numQueryKinds]struct {
		turn    sync.Mutex // guards what follows
		head    *head      // whose nodes were asked last
		at      time.Time
		answers []answer[wire.Used]
		silent  []string
	}

	mu       sync.Mutex // guards what follows
	lastCall int
	pending  map[int]chan answer[wire.Used] // by the number of the call
}

// run returns the nodes' answers, in their order, and the hosts that did not answer in time.
func (l *queries) run(ctx context.Context, h *head, what queryKind) ([]answer[wire.Used], []string) {
	q := &l.cache[what]
	q.turn.Lock()
	defer q.turn.Unlock()
	if q.head == h && time.Since(q.at) < maxAnswerAge {
		return q.answers, q.silent
	}
	list, silent := l.ask(ctx, h, what)
	if ctx.Err() == nil {
		q.head, q.at, q.answers, q.silent = h, time.Now(), list, silent
	}
	return list, silent
}

// ask is run without answers of earlier queries.
func (l *queries) ask(ctx context.Context, h *head, what queryKind) ([]answer[wire.Used], []string) {
	return l.begin(h, what)(ctx)
}

// begin asks the nodes. It returns a function that waits for their answers.
func (l *queries) begin(h *head, what queryKind) func(ctx context.Context) ([]answer[wire.Used], []string) {
	answers, call := l.openCall(len(h.nodes))
	evidence := 0
	if what == queryEvidence || what == queryDumps {
		evidence = max(minEvidence, maxEvidence/len(h.nodes))
	}
	for i, n := range h.nodes {
		// a lost node does not answer
		_ = n.link.Send(&wire.Usage{
			Call: call, Stacks: what == queryStacks || what == queryCause, RAS: what == queryNCCL, All: i == 0,
			Signs:    what == querySigns || what == queryCause || what == queryMetrics,
			GPUs:     what == queryCause || what == queryMetrics,
			Evidence: evidence, Dumps: what == queryDumps,
		})
	}
	return func(ctx context.Context) ([]answer[wire.Used], []string) {
		defer l.closeCall(call)
		limit, cancel := context.WithTimeout(ctx, queryTimeouts[what])
		defer cancel()
		return collect(limit, h, answers)
	}
}

func (l *queries) openCall(nodes int) (answers chan answer[wire.Used], call int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = map[int]chan answer[wire.Used]{}
	}
	l.lastCall++
	l.pending[l.lastCall] = make(chan answer[wire.Used], nodes)
	return l.pending[l.lastCall], l.lastCall
}

func (l *queries) closeCall(call int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, call)
}

// receive delivers an answer to its call, if that is open.
func (l *queries) receive(n *node, m wire.Used) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.pending[m.Call] <- answer[wire.Used]{n, m}: // nil, which blocks, for a closed call
	default: // a second answer
	}
}
