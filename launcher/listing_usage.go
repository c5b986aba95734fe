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
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// Limits of asking the nodes.
const (
	usageAge   = 900 * time.Millisecond // an answer so young is given again
	usageTime  = 2 * time.Second        // for a node to answer
	stacksTime = 15 * time.Second       // the same where it looks into its ranks
)

// usage asks the nodes what their ranks use: only when somebody asks, one question at a
// time, and not more than about once a second.
type usage struct {
	turn chan struct{} // has one place, taken by who asks

	// What follows is who asks's.
	calls  int
	last   []rankUsage
	silent []string
	head   *head // whose nodes that were
	at     time.Time

	mu     sync.Mutex // guards open
	open   chan usedBy
	number int
}

// rankUsage is what a rank used at a moment of its host's clock.
type rankUsage struct {
	wire.RankUsage
	at   time.Time
	hang job.HangRank
}

type usedBy struct {
	node *node
	wire.Used
}

// ask returns what ranks use, by rank, and the hosts that did not say so in time.
func (u *usage) ask(ctx context.Context, h *head, stacks bool) (used []rankUsage, silent []string) {
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil
	}
	defer func() { <-u.turn }()
	if !stacks && u.head == h && time.Since(u.at) < usageAge {
		return u.last, u.silent
	}
	used, silent = u.askNodes(ctx, h, stacks)
	if !stacks {
		u.last, u.silent, u.head, u.at = used, silent, h, time.Now()
	}
	return used, silent
}

func (u *usage) askNodes(ctx context.Context, h *head, stacks bool) (used []rankUsage, silent []string) {
	u.calls++
	answers := make(chan usedBy, len(h.nodes))
	u.listen(answers, u.calls)
	defer u.listen(nil, 0)
	_ = h.sendAll(&wire.Usage{Call: u.calls, Stacks: stacks}) // who is lost does not answer
	limit := usageTime
	if stacks {
		limit = stacksTime
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	missing := map[*node]bool{}
	for _, n := range h.nodes {
		missing[n] = true
	}
	for waiting := true; waiting && len(missing) > 0; {
		select {
		case a := <-answers:
			delete(missing, a.node)
			used = append(used, h.usages(a)...)
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
	slices.SortFunc(used, func(a, b rankUsage) int { return cmp.Compare(a.Rank, b.Rank) })
	return used, silent
}

func (u *usage) listen(answers chan usedBy, number int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open, u.number = answers, number
}

// hear takes an answer, if it is one to the question that is open.
func (u *usage) hear(n *node, m wire.Used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil || m.Call != u.number {
		return
	}
	select {
	case u.open <- usedBy{n, m}:
	default: // it has answered already
	}
}

// usages are an answer's, without ranks that are none of the node's.
func (h *head) usages(a usedBy) (list []rankUsage) {
	for _, u := range a.Ranks {
		doing := h.hangRanks(a.node, wire.Hung{Ranks: []wire.HungRank{u.HungRank}})
		if len(doing) == 1 {
			list = append(list, rankUsage{RankUsage: u, at: a.At, hang: doing[0]})
		}
	}
	return list
}

// describe is the job without its ranks.
func (l *listing) describe(h *head) registry.Job {
	p := h.plan.Load()
	j := registry.Job{
		ID: l.id(), State: "running", PID: os.Getpid(), Began: l.began, At: time.Now(), NumRanks: len(p.Ranks), Attempt: p.Attempt,
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
	list, silent := l.usage.ask(ctx, h, false)
	for _, u := range list {
		used[u.Rank] = u
	}
	j := l.describe(h)
	j.Silent = silent
	p := h.plan.Load()
	for _, r := range p.Ranks {
		rank := registry.Rank{Rank: r.Rank, Host: p.Nodes[r.Node].Name, Here: h.nodes[r.Node].served != nil, Last: h.console.Last(r.Rank)}
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
