package launcher

import (
	"context"
	"fmt"
	"strconv"

	"gorun/internal/printable"
	"gorun/launcher/internal/output"
	"gorun/launcher/job"
)

// headLogs are the log files of several nodes if the head writes them (--logs-to head): nodes then
// write none and send all output.
type headLogs struct {
	head  *head
	nodes []*output.Logs // by their number in the plan
}

// logsHere reports whether the head writes the log files of all nodes.
func (h *head) logsHere() bool {
	l := h.plan.Load().Logs
	return l != nil && l.Files() && h.spec.Output.LogsToHead && len(h.nodes) > 1
}

// openHeadLogs creates the files of this attempt; nil if nodes write their own.
func (h *head) openHeadLogs() (*headLogs, error) {
	if !h.logsHere() {
		return nil, nil
	}
	x := &headLogs{head: h}
	for number := range h.nodes {
		logs, err := x.open(number)
		if err != nil {
			x.close(context.Background())
			return nil, failure(printable.Error(err))
		}
		x.nodes = append(x.nodes, logs)
	}
	return x, nil
}

func (x *headLogs) open(number int) (*output.Logs, error) {
	h := x.head
	plan := h.logPlan(number)
	plan.Template, _ = output.ParseTemplate(h.spec.Output.Template) // checkOutput has checked it
	plan.Show = localRankFilter(h.spec.Output.ShowLocalRanks)
	plan.Consumed = func(_, stream, bytes int) { h.credits[number].consumed(stream, bytes) }
	plan.Failed = func(path string, err error) {
		h.settings.notify(fmt.Sprintf("log file %s is incomplete from here on: %v", path, err))
	}
	return output.OpenLogs(plan)
}

// logPlan describes the log files of a node's ranks, whoever writes them.
func (h *head) logPlan(number int) output.LogPlan {
	p := h.plan.Load()
	l := p.LogsOf(number)
	plan := output.LogPlan{
		Digits: len(strconv.Itoa(len(p.Ranks) - 1)), RunDir: l.Base, Attempt: p.Attempt,
		Tee: both(l.Redirect, l.Tee), StdoutFilters: l.DuplicateStdout, StderrFilters: l.DuplicateStderr,
	}
	for _, rank := range p.Nodes[number].Ranks {
		info := rankInfo(p, &p.Ranks[rank])
		if h.logsHere() {
			info.Host = h.nodes[number].name
		}
		plan.Ranks = append(plan.Ranks, info)
	}
	plan.Names, _ = output.ParsePatterns(l.Names) // checkOutput has checked them
	return plan
}

// both merges the streams to write: here all of them pass through.
func both(redirect, tee []job.Streams) output.StreamMap {
	m := make(output.StreamMap, len(tee))
	for localRank := range tee {
		m[localRank] = redirect[localRank] | tee[localRank]
	}
	return m
}

// rankInfo returns what labels and file names contain of a rank.
func rankInfo(p *job.Plan, r *job.Rank) output.RankInfo {
	return output.RankInfo{
		Rank: r.Rank, LocalRank: r.LocalRank, Host: p.Nodes[r.Node].Name, Role: p.RoleOf(r.Node), Node: r.Node,
	}
}

// write writes output of a rank to its file and reports whether to show it, too.
func (x *headLogs) write(n *node, rank, stream int, p []byte) (shown bool) {
	r := x.head.plan.Load().Ranks[rank]
	if r.Spawned { // its local rank, and thus the file, is another rank's
		return true
	}
	localRank := r.LocalRank
	file := x.nodes[n.number].Tee(localRank, stream)
	if file == nil {
		return true
	}
	if shown = x.head.plan.Load().Logs.Tee[localRank].Has(stream); shown {
		x.head.credits[n.number].countTwice(stream, len(p)) // once shown, once written
	}
	_, _ = file.Write(p) // never fails: plan.Failed reports a broken disk
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

// last returns the last lines in a rank's files.
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
