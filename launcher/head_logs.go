package launcher

import (
	"context"
	"fmt"
	"strconv"

	"gorun/launcher/internal/output"
	"gorun/launcher/job"
)

// headLogs are the log files of several nodes where they are all written here
// (--logs-to head): the nodes then write none, and send everything.
type headLogs struct {
	head  *head
	nodes []*output.Logs // as the plan numbers them
}

// logsHere reports whether the log files of all nodes are written here.
func (h *head) logsHere() bool {
	l := h.plan.Load().Logs
	return l != nil && l.Files() && h.spec.Output.LogsToHead && len(h.nodes) > 1
}

// openHeadLogs makes the files of this attempt; nil where the nodes write their own.
func (h *head) openHeadLogs() (*headLogs, error) {
	if !h.logsHere() {
		return nil, nil
	}
	x := &headLogs{head: h}
	for _, n := range h.nodes {
		logs, err := x.open(n)
		if err != nil {
			x.close(context.Background())
			return nil, failure(err.Error())
		}
		x.nodes = append(x.nodes, logs)
	}
	return x, nil
}

func (x *headLogs) open(n *node) (*output.Logs, error) {
	h := x.head
	plan := h.logPlan(n)
	plan.Template, _ = output.ParseTemplate(h.spec.Output.Template) // checkOutput has checked it
	plan.Show = localRankFilter(h.spec.Output.ShowLocalRanks)
	plan.Consumed = func(_, stream, bytes int) { h.credits[n.number].consumed(stream, bytes) }
	plan.Failed = func(path string, err error) {
		h.settings.notify(fmt.Sprintf("log file %s is incomplete from here on: %v", path, err))
	}
	return output.OpenLogs(plan)
}

// logPlan says which files there are of a node's ranks, wherever they are written.
func (h *head) logPlan(n *node) output.LogPlan {
	p := h.plan.Load()
	l := p.LogsOf(n.number)
	plan := output.LogPlan{
		Digits: len(strconv.Itoa(len(p.Ranks) - 1)), RunDir: l.Base, Attempt: p.Attempt,
		Tee: both(l.Redirect, l.Tee), StdoutFilters: l.DuplicateStdout, StderrFilters: l.DuplicateStderr,
	}
	for _, rank := range p.Nodes[n.number].Ranks {
		info := rankInfo(p, &p.Ranks[rank])
		if h.logsHere() {
			info.Host = n.name
		}
		plan.Ranks = append(plan.Ranks, info)
	}
	plan.Names, _ = output.ParsePatterns(l.Names) // checkOutput has checked them
	return plan
}

// both are the streams that are written to files, whether they are shown or not: here
// every one of them passes through.
func both(redirect, tee []job.Streams) output.StreamMap {
	m := make(output.StreamMap, len(tee))
	for localRank := range tee {
		m[localRank] = redirect[localRank] | tee[localRank]
	}
	return m
}

// rankInfo is what labels and names of files say of a rank.
func rankInfo(p *job.Plan, r *job.Rank) output.RankInfo {
	return output.RankInfo{
		Rank: r.Rank, LocalRank: r.LocalRank, Host: p.Nodes[r.Node].Name, Role: p.RoleOf(r.Node), Node: r.Node,
	}
}

// write takes what a rank wrote into its file, and reports whether it is also to be
// shown.
func (x *headLogs) write(n *node, rank, stream int, p []byte) (shown bool) {
	r := x.head.plan.Load().Ranks[rank]
	if r.Spawned { // it has no file; one of its local rank is another's
		return true
	}
	localRank := r.LocalRank
	file := x.nodes[n.number].Tee(localRank, stream)
	if file == nil {
		return true
	}
	if shown = x.head.plan.Load().Logs.Tee[localRank].Has(stream); shown {
		x.head.credits[n.number].countTwice(stream, len(p)) // it is given back when it is shown and when it is in the file
	}
	_, _ = file.Write(p) // never fails: a broken disk is reported once
	return shown
}

// end closes a rank's file.
func (x *headLogs) end(n *node, rank, stream int) {
	r := x.head.plan.Load().Ranks[rank]
	if r.Spawned {
		return
	}
	if file := x.nodes[n.number].Tee(r.LocalRank, stream); file != nil {
		_ = file.Close()
	}
}

// last are the last lines that a rank wrote into its files.
func (x *headLogs) last(rank int) []string {
	r := x.head.plan.Load().Ranks[rank]
	if r.Spawned {
		return nil
	}
	return x.nodes[r.Node].Last(r.LocalRank, tailLines)
}

func (x *headLogs) close(ctx context.Context) {
	for _, logs := range x.nodes {
		if err := logs.Close(ctx); err != nil {
			x.head.settings.notify(err.Error())
		}
	}
}
