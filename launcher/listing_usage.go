package launcher

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/registry"
)

// Limits of asking the nodes.
const (
	usageAge   = 900 * time.Millisecond // an answer so young is given again
	usageTime  = 2 * time.Second        // for a node to answer
	stacksTime = 15 * time.Second       // the same where it looks into its ranks
	ncclTime   = 10 * time.Second       // the same where it asks NCCL
)

// kind is what nodes are asked for.
type kind int

const (
	lookUsage kind = iota
	lookStacks
	lookNCCL
	kinds
)

// usage asks the nodes what their ranks use and do: only when somebody asks, one question of a kind at a
// time, and for what they use not more than about once a second.
type usage struct {
	turns [kinds]chan struct{} // each has one place, taken by who asks: what takes long does not keep others waiting

	// What follows is whose turn of lookUsage it is.
	last   []rankUsage
	silent []string
	head   *head // whose nodes that were
	at     time.Time

	mu    sync.Mutex // guards what follows
	calls int
	open  map[int]chan usedBy // questions, by their numbers
}

func (u *usage) begin() {
	for i := range u.turns {
		u.turns[i] = make(chan struct{}, 1)
	}
	u.open = map[int]chan usedBy{}
}

// take waits for a turn; false: nobody waits for the answer any more.
func (u *usage) take(ctx context.Context, k kind) bool {
	select {
	case u.turns[k] <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (u *usage) leave(k kind) { <-u.turns[k] }

// rankUsage is what a rank used at a moment of its host's clock.
type rankUsage struct {
	wire.RankUsage
	at   time.Time
	hang spec.Activity
}

type usedBy struct {
	node *node
	wire.Used
}

// ask returns what ranks use, by rank, and the hosts that did not say so in time.
func (u *usage) ask(ctx context.Context, h *head) (used []rankUsage, silent []string) {
	if !u.take(ctx, lookUsage) {
		return nil, nil
	}
	defer u.leave(lookUsage)
	if u.head == h && time.Since(u.at) < usageAge {
		return u.last, u.silent
	}
	answers, silent := u.put(ctx, h, lookUsage)
	u.last, u.silent, u.head, u.at = h.usages(answers), silent, h, time.Now()
	return u.last, u.silent
}

// askNodes returns what the nodes answer, in their order, and the hosts that did not in time.
func (u *usage) askNodes(ctx context.Context, h *head, k kind) (answers []usedBy, silent []string) {
	if !u.take(ctx, k) {
		return nil, nil
	}
	defer u.leave(k)
	return u.put(ctx, h, k)
}

// put asks the nodes. The turn is the caller's.
func (u *usage) put(ctx context.Context, h *head, k kind) (list []usedBy, silent []string) {
	answers := make(chan usedBy, len(h.nodes))
	call := u.listen(answers)
	defer u.forget(call)
	missing := map[*node]bool{}
	for i, n := range h.nodes {
		missing[n] = true
		// who is lost does not answer
		_ = n.link.Send(&wire.Usage{Call: call, Stacks: k == lookStacks, RAS: k == lookNCCL, All: i == 0})
	}
	timer := time.NewTimer([kinds]time.Duration{usageTime, stacksTime, ncclTime}[k])
	defer timer.Stop()
	for waiting := true; waiting && len(missing) > 0; {
		select {
		case a := <-answers:
			if missing[a.node] {
				delete(missing, a.node)
				list = append(list, a)
			}
		case <-timer.C:
			waiting = false
		case <-h.over:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	for n := range maps.Keys(missing) {
		silent = append(silent, n.name)
	}
	slices.Sort(silent)
	slices.SortFunc(list, func(a, b usedBy) int { return cmp.Compare(a.node.number, b.node.number) })
	return list, silent
}

func (u *usage) listen(answers chan usedBy) (call int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
	u.open[u.calls] = answers
	return u.calls
}

func (u *usage) forget(call int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, call)
}

// hear takes an answer, if it is one to a question that is open.
func (u *usage) hear(n *node, m wire.Used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case u.open[m.Call] <- usedBy{n, m}: // nil where nobody asks
	default: // it has answered already
	}
}

// usages are those of answers, by rank, without ranks that are none of the node's.
func (h *head) usages(answers []usedBy) (list []rankUsage) {
	for _, a := range answers {
		for _, u := range a.Ranks {
			doing := h.hangRanks(a.node, wire.Hung{Ranks: []spec.Activity{u.Activity}})
			if len(doing) == 1 {
				list = append(list, rankUsage{RankUsage: u, at: a.At, hang: doing[0]})
			}
		}
	}
	slices.SortFunc(list, func(a, b rankUsage) int { return cmp.Compare(a.Rank, b.Rank) })
	return list
}

// describe is the job without its ranks.
func (l *listing) describe(h *head) registry.Job {
	p := h.plan.Load()
	j := registry.Job{
		ID: l.id, State: "running", PID: os.Getpid(), Began: l.began, At: time.Now(), NumRanks: len(p.Ranks),
		Attempt: p.Attempt,
	}
	j.Program, j.Args = l.program()
	for i := range p.Nodes {
		j.Hosts = append(j.Hosts, p.Nodes[i].Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range p.Ranks {
		if _, ended := h.sup.Exit(r.Rank); !ended && h.sup.PID(r.Rank) != 0 {
			j.Running++
		}
	}
	if l.pausing.Load() {
		j.State, j.Running = "restarting", 0
	} else {
		j.State = h.sup.State()
	}
	return j
}

// program is what the user started, with a colon between several.
func (l *listing) program() (name string, args []string) {
	for i, app := range l.session.spec.Apps {
		if i == 0 {
			name, args = app.Program, slices.Clone(app.Args)
			continue
		}
		args = append(append(args, ":", app.Program), app.Args...)
	}
	return name, args
}

// describeRanks is the job with its ranks and what they use.
func (l *listing) describeRanks(ctx context.Context, h *head) registry.Job {
	used := map[int]rankUsage{}
	list, silent := l.usage.ask(ctx, h)
	for _, u := range list {
		used[u.Rank] = u
	}
	j := l.describe(h)
	j.Silent = silent
	p := h.plan.Load()
	for _, r := range p.Ranks {
		rank := registry.Rank{
			Rank: r.Rank, Host: p.Nodes[r.Node].Name, Here: h.nodes[r.Node].served != nil,
			Last: h.console.Last(r.Rank),
		}
		for _, g := range r.GPUs {
			rank.GPUs = append(rank.GPUs, g.PCI)
		}
		h.tellEnd(&rank)
		if u, known := used[r.Rank]; known {
			u.tell(&rank)
		}
		j.Ranks = append(j.Ranks, rank)
	}
	return j
}

// tellEnd says how far a rank has come, as the supervisor knows it.
func (h *head) tellEnd(rank *registry.Rank) {
	h.mu.Lock()
	defer h.mu.Unlock()
	exit, ended := h.sup.Exit(rank.Rank)
	switch rank.PID = h.sup.PID(rank.Rank); {
	case ended && exit.Signal != 0:
		rank.Signal, _ = diagnosis.SignalName(exit.Signal)
		rank.State = rank.Signal
	case ended:
		rank.Code, rank.State = new(exit.Code), "ended"
	case rank.PID == 0:
		rank.State = "starting"
	default:
		rank.State = "running"
	}
}

// tell adds what the rank's own host knows of it.
func (u rankUsage) tell(rank *registry.Rank) {
	rank.At = u.at
	ended := rank.Code != nil || rank.Signal != ""
	if !ended && u.Standing != "" {
		rank.State = printable.Text(u.Standing)
	}
	if u.CPUTime >= 0 && !ended {
		rank.CPU, rank.Memory = new(u.CPUTime), new(u.Memory)
	}
	if u.Printed >= 0 {
		rank.Output = new(u.Printed)
	}
	if rank.Last == "" {
		rank.Last = printable.Text(u.Last)
	}
}
