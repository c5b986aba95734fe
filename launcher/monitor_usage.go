package launcher

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"gorun/launcher/internal/diagnosis"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/registry"
)

// rankUsage is a rank's usage at a time of its host's clock.
type rankUsage struct {
	wire.RankUsage
	at time.Time
}

// usages returns the usage in answers by rank, without ranks that the node does not have.
func (h *head) usages(answers []answer[wire.Used]) (list []rankUsage) {
	for _, a := range answers {
		for _, u := range a.body.Ranks {
			if doing := h.activities(a.node, []spec.Activity{u.Activity}); doing != nil {
				u.Activity = doing[0]
				list = append(list, rankUsage{u, a.body.At})
			}
		}
	}
	slices.SortFunc(list, func(a, b rankUsage) int { return cmp.Compare(a.Rank, b.Rank) })
	return list
}

// describe describes the job without its ranks.
func (l *monitor) describe(h *head) registry.Job {
	p := h.plan.Load()
	j := registry.Job{
		ID: l.id, State: "running", PID: os.Getpid(), Began: l.began, At: time.Now(), NumRanks: len(p.Ranks),
		Attempt: p.Attempt, Generation: h.generation,
	}
	j.Spares, j.Lost = h.others()
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
	if l.paused.Load() {
		j.State, j.Running = "restarting", 0
	} else {
		j.State = h.sup.State()
	}
	return j
}

// others returns the names of the hosts of an elastic job that have no ranks: spares, and lost ones.
func (h *head) others() (spares, lost []string) {
	members := *h.members.Load()
	for _, n := range members {
		switch {
		case h.spec.MinNodes == 0 || slices.Contains(h.nodes, n):
		case n.isLost():
			if !slices.ContainsFunc(members, func(other *node) bool { return other.name == n.name && other != n }) {
				lost = append(lost, n.name)
			}
		default:
			spares = append(spares, n.name)
		}
	}
	for _, n := range h.left {
		if !sameHostAs(members)(n) {
			lost = append(lost, n.name)
		}
	}
	return spares, lost
}

// program returns the command line, with a colon between programs.
func (l *monitor) program() (name string, args []string) {
	for i, app := range l.call.spec.Apps {
		if i == 0 {
			name, args = app.Program, slices.Clone(app.Args)
			continue
		}
		args = append(append(args, ":", app.Program), app.Args...)
	}
	return name, args
}

// describeRanks describes the job with its ranks and their usage, by the nodes' answers to a query.
func (l *monitor) describeRanks(ctx context.Context, h *head, what queryKind) (registry.Job, []answer[wire.Used]) {
	used := map[int]rankUsage{}
	answers, silent := h.queries.run(ctx, h, what)
	for _, u := range h.usages(answers) {
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
		h.addState(&rank)
		if u, known := used[r.Rank]; known {
			u.addTo(&rank)
		}
		j.Ranks = append(j.Ranks, rank)
	}
	return j, answers
}

// addState adds the supervisor's view of a rank.
func (h *head) addState(rank *registry.Rank) {
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

// addTo adds what the rank's host knows.
func (u rankUsage) addTo(rank *registry.Rank) {
	rank.At = u.at
	ended := rank.Code != nil || rank.Signal != ""
	if !ended && u.State != "" {
		rank.State = u.State
	}
	if u.CPUTime >= 0 && !ended {
		rank.CPU, rank.Memory = new(u.CPUTime.Seconds()), new(u.Memory)
	}
	if u.Printed >= 0 {
		rank.Output = new(u.Printed)
	}
	rank.Last = cmp.Or(rank.Last, u.LastLine)
}
