package launcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/registry"
)

// lostNodes are those of the attempt whose agents are gone.
func (s *session) lostNodes() []*node {
	return slices.DeleteFunc(slices.Clone(s.active), func(n *node) bool {
		select {
		case <-n.lost:
			return false
		default:
			return true
		}
	})
}

// canReturn reports whether all that was lost with an attempt can be there for the next.
func canRestart(r *job.Result, lost []*node) bool {
	return (r.Cause != job.CauseNode || len(lost) > 0) && !slices.ContainsFunc(lost, func(n *node) bool {
		return !n.canRestart()
	})
}

// canReturn reports whether a lost node may have another agent: its connection has ended, so that
// its ranks have as well, and this process had started its agent. A node that is silent may still
// run its ranks, and one that broke the rules is not to be trusted.
func (n *node) canRestart() bool {
	return n.kind == wire.PeerSSH && n.abandoned.Load() == nil && !errors.As(n.err, new(*wire.ViolationError))
}

// returnAfter waits, then starts the agents of lost nodes again, on the same hosts in the same way.
func (s *session) reconnectAfter(ctx context.Context, delay time.Duration, lost []*node) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if len(lost) == 0 {
		return nil
	}
	if err := s.renewMarker(); err != nil {
		return err
	}
	nodes, before := slices.Clone(s.nodes), make(map[*node]*node, len(lost))
	for _, n := range lost {
		fresh := &node{index: n.index, host: n.host, name: n.name, notify: s.settings.notify}
		nodes[n.index], before[fresh] = fresh, n
	}
	s.nodes = nodes
	s.heartbeat.nodes.Store(&nodes)
	return s.forEach(func(n *node) error {
		if before[n] == nil {
			return nil
		}
		return s.reconnect(ctx, before[n], n)
	})
}

// renewMarker gives the job's processes another marker: the guard of an agent that is gone may still be
// looking for those that have the one before. What people call the job stays.
func (s *session) renewMarker() error {
	fresh, err := process.NewJobID()
	if err != nil {
		return err
	}
	name := registry.ID(s.ids.Job)
	s.ids.Job = name + fresh[len(name):]
	return nil
}

// replace reaches a host again and asks what depends on the agent alone; its network is as before.
func (s *session) reconnect(ctx context.Context, before, n *node) error {
	before.close()
	err := s.connectTo(ctx, n)
	if err == nil {
		err = n.send(s.helloFor(n, s.hello()))
	}
	if err == nil {
		err = s.receiveNodeFacts(n)
	}
	old := &before.facts
	n.facts.Address, n.facts.Interface, n.facts.Mbps, n.addresses = old.Address, old.Interface, old.Mbps,
		before.addresses
	return err
}

// stayLost says why there is no restart.
func (s *session) explainNoRestart(r *job.Result, n *node, err error) {
	lines := []string{n.name + " is lost"}
	if r.Cause == job.CauseNode {
		lines[0] = r.Text
	}
	r.Hint = ""
	for _, e := range flatten(err) {
		lines = append(lines, "no restart: "+e.Text)
		r.Hint = cmp.Or(r.Hint, e.Hint)
	}
	r.Cause, r.ExitCode, r.Text = job.CauseNode, job.ExitLauncher, strings.Join(lines, "\n")
}
