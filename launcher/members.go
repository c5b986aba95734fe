package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"gorun/env/plan"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/record"
)

// ownNodes is how many of s.nodes are to have ranks. Those behind them are spares.
func (s *session) ownNodes() int { return s.spec.OwnNodes(len(s.nodes)) }

// standby returns the spares that still have an agent.
func (s *session) standby() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes[s.ownNodes():]), (*node).isLost)
}

// spares returns the spares that may take the place of a node: those in quarantine last, and only of one that the job
// cannot do without.
func (s *session) spares() []*node {
	all := s.standby()
	fit := s.outOfQuarantine(all)
	if s.ownNodes() > s.spec.MinNodes {
		return fit
	}
	return append(fit, slices.DeleteFunc(all, func(n *node) bool { return slices.Contains(fit, n) })...)
}

// replaceable reports whether the job can go on without lost nodes. Agents are started again on those that return;
// the others leave the job.
func (s *session) replaceable(lost []*node) (returning, leaving []*node, ok bool) {
	spares, left, fit := len(s.spares()), s.ownNodes(), s.outOfQuarantine(lost)
	reserve := len(s.standby()) - spares
	for _, n := range lost {
		switch {
		case s.spec.MinNodes > 0 && spares > 0: // it is ready, and the host may be about to fail for good
			spares--
			leaving = append(leaving, n)
		case n.canRestart() && (slices.Contains(fit, n) || s.spec.MinNodes == 0 || left <= s.spec.MinNodes):
			returning = append(returning, n)
		default:
			if left > s.spec.MinNodes || reserve == 0 {
				left--
			} else {
				reserve--
			}
			leaving = append(leaving, n)
		}
	}
	enough := s.spec.MinNodes > 0 && left >= s.spec.MinNodes
	return returning, leaving, len(leaving) == 0 || enough || s.awaitsMembers()
}

// awaitsMembers reports whether a job that has run waits for nodes to come back when too few are left.
func (s *session) awaitsMembers() bool {
	if s.plan == nil || s.spec.MinNodes == 0 || s.spec.Restarts.Max == 0 || s.spec.StartedByEngine() {
		return false
	}
	able := slices.DeleteFunc(slices.Concat(s.nodes, s.left), (*node).isHostile)
	return s.listener != nil || len(able) >= s.spec.MinNodes
}

// isHostile reports whether a node is lost because it broke the protocol.
func (n *node) isHostile() bool { return n.isLost() && errors.As(n.err, new(*wire.ViolationError)) }

// awaitMembers waits until there are enough nodes again: others that join, or hosts that answer.
func (s *session) awaitMembers(ctx context.Context) error {
	if !s.awaitsMembers() {
		return nil
	}
	limit := join.DefaultTimeout
	if s.spec.Join != nil {
		limit = cmp.Or(s.spec.Join.Timeout, limit)
	}
	due := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	said := false
	for try := readmitTime; ; try = min(2*try, s.reachTimeout()) {
		s.dropIdle()
		missing := plural(s.spec.MinNodes-len(s.nodes), "node")
		switch {
		case len(s.nodes) >= s.spec.MinNodes:
			s.grow()
			return nil
		case ctx.Err() != nil:
			return failure(fmt.Sprintf("%s did not come back within %s", missing, limit))
		case !said:
			text := fmt.Sprintf("waiting up to %s, until %s, for %s to come back", limit, due.Format(time.TimeOnly), missing)
			if s.listener == nil {
				var names []string
				for _, n := range s.left {
					names = append(names, n.name)
				}
				text += "; lost: " + hosts.NodeList(names)
			}
			s.settings.notify(text)
			said = true
		}
		if s.listener == nil {
			s.readmit(ctx, s.left, try)
			if len(s.nodes) < s.spec.MinNodes {
				pause(ctx, readmitTime)
			}
		} else if s.listener.AwaitWaiting(ctx, s.spec.MinNodes-len(s.nodes)) == nil {
			s.admit(0)
		}
	}
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// leave removes a node from the job. The first of spares takes its place; without any, the nodes behind it move up. It
// returns what becomes of the job.
func (s *session) leave(n *node, spares []*node) (change string) {
	own := s.ownNodes()
	nodes := slices.Clone(s.nodes)
	gone := slices.Index(nodes, n)
	if gone < len(s.spec.Hosts) {
		n.host.Slots = s.spec.Hosts[gone].Slots
	}
	change = plural(own-1, "node") + " left"
	if gone >= own {
		change = "it was a spare"
	} else if len(spares) > 0 {
		change = "spare " + spares[0].name + " takes its place"
		if s.plan != nil {
			change = fmt.Sprintf("spare %s takes its ranks %s", spares[0].name, job.RankRanges(s.plan.Nodes[n.number].Ranks))
		}
		spares[0].number = n.number
		at := slices.Index(nodes, spares[0])
		nodes[gone], nodes[at] = nodes[at], nodes[gone]
		gone = at
	} else if s.spec.NumNodes > 0 {
		s.spec.NumNodes = own - 1
	}
	s.setNodes(slices.Delete(nodes, gone, gone+1))
	s.left = append(s.left, n)
	return change
}

// setNodes changes the nodes of the job, and its hosts with them, where it has a list of hosts.
func (s *session) setNodes(nodes []*node) {
	var list []hosts.Host
	for _, n := range nodes {
		host := n.host
		if at := slices.Index(s.nodes, n); at >= 0 && at < len(s.spec.Hosts) {
			host = s.spec.Hosts[at] // with its slots
		}
		list = append(list, host)
	}
	if s.nodes = nodes; s.listener == nil {
		s.spec.Hosts = list
	}
	s.heartbeat.nodes.Store(&nodes)
	s.membersChanged = true
}

// readmitTime is how long a restart waits for hosts that may be back.
const readmitTime = time.Second

// readmit has those of the nodes that have left join again that answer in time: where they were if no attempt has begun
// since, else in the place of one that has left since, behind all others if the job has become smaller, or as spares.
// A node that broke the protocol is not trusted, and one that a resource manager has taken away does not come back.
func (s *session) readmit(ctx context.Context, nodes []*node, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.takeBack(s.reconnectLeft(ctx, nodes))
}

// reconnectLeft returns new nodes for those of the nodes that have left whose hosts answer.
func (s *session) reconnectLeft(ctx context.Context, nodes []*node) []*node {
	back := make([]*node, len(nodes))
	var busy sync.WaitGroup
	for i, n := range nodes {
		if n.engine == nil && !n.joined && !n.isHostile() {
			busy.Go(func() {
				back[i] = n.again(s.settings.notify)
				s.heartbeat.add(back[i]) // others may take long
				if err := s.reconnect(ctx, n, back[i]); err != nil {
					back[i].close()
					back[i] = nil
				}
			})
		}
	}
	busy.Wait()
	return slices.DeleteFunc(back, func(n *node) bool { return n == nil })
}

func (s *session) takeBack(nodes []*node) {
	for _, n := range nodes {
		own, as := s.ownNodes(), ""
		at := own
		if own == s.size {
			as = ", as a spare"
		} else {
			s.spec.NumNodes = own + 1
			place := s.lastPlace(n)
			for i, other := range s.nodes[:own] {
				if s.lastPlace(other) > max(i, place) {
					at = i
					break
				}
			}
		}
		s.reportReturn(n, as)
		s.setNodes(slices.Insert(slices.Clone(s.nodes), at, n))
		s.left = slices.DeleteFunc(slices.Clone(s.left), func(gone *node) bool { return gone.index == n.index })
	}
}

func (s *session) reportReturn(n *node, as string) {
	text := n.name + " is back" + as
	s.settings.notify(text)
	s.settings.emit(record.Event{Event: record.NodeJoined, Host: n.name, Text: text})
}

// lastPlace returns the place of a node's host in the last attempt; -1 if it had none.
func (s *session) lastPlace(n *node) int {
	return slices.IndexFunc(s.active, func(other *node) bool { return other.index == n.index })
}

// admitLimit is how long a node that has waited may take to describe itself.
const admitLimit = 5 * time.Second

// admit has nodes that wait join the job, as many as it lacks without those lost. They are spares until grow.
func (s *session) admit(lost int) {
	if fresh := s.enlist(max(0, s.size-len(s.nodes)+lost)); len(fresh) > 0 {
		s.setNodes(slices.Concat(s.nodes, fresh))
	}
}

// enlist returns up to most of the nodes that wait, without those that do not describe themselves.
func (s *session) enlist(most int) (fresh []*node) {
	for _, m := range s.listener.Admit(most) {
		fresh = append(fresh, s.newMember(m))
	}
	hello := s.hello()
	errs := forEachOf(fresh, func(n *node) error {
		return n.within(admitLimit, "its state", func() error { return s.introduce(n, hello) })
	})
	able := fresh[:0]
	for i, n := range fresh {
		if errs[i] != nil {
			s.settings.notify(fmt.Sprintf("%s cannot join: %s", n.name, flatten(errs[i])[0].Text))
			n.close()
			continue
		}
		s.settings.notify(n.name + " joins the job")
		s.settings.emit(record.Event{Event: record.NodeJoined, Host: n.name})
		able = append(able, n)
	}
	return able
}

// grow gives nodes that came meanwhile, and have no lost node's ranks, ranks behind all others.
func (s *session) grow() {
	if s.spec.MinNodes > 0 {
		s.spec.NumNodes = min(s.size, len(s.nodes))
	}
}

// again returns a node for another agent on a node's host.
func (n *node) again(notify func(string)) *node {
	return &node{index: n.index, number: n.number, host: n.host, name: n.name, notify: notify}
}

// forEachNeeded is forEach for a job that has no ranks yet. Nodes that fail leave the job, as long as enough are left
// or it waits for others.
func (s *session) forEachNeeded(do func(*node) error) error {
	if s.spec.MinNodes == 0 {
		return s.forEach(do)
	}
	var mu sync.Mutex
	failed := map[*node]error{}
	err := s.forEach(func(n *node) error {
		err := do(n)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[n] = err
		}
		return err
	})
	if len(s.nodes)-len(failed) < s.spec.MinNodes && !s.awaitsMembers() {
		return err
	}
	for _, n := range slices.Clone(s.nodes) {
		if failed[n] != nil {
			spares := slices.DeleteFunc(s.spares(), func(n *node) bool { return failed[n] != nil })
			s.settings.notify(fmt.Sprintf("%s: %s; %s", n.name, flatten(failed[n])[0].Text, s.leave(n, spares)))
		}
	}
	return nil
}

// withoutLost has do, which needs all nodes, done again without those that are lost meanwhile, as long as enough are
// left.
func (s *session) withoutLost(do func() error) error {
	for {
		if err := do(); err == nil || !s.dropLost() {
			return err
		}
	}
}

// dropLost has lost nodes leave the job, if there are any and it can go on or waits for others.
func (s *session) dropLost() bool {
	here := slices.DeleteFunc(slices.Clone(s.nodes), (*node).isLost)
	if len(here) == len(s.nodes) || s.spec.MinNodes == 0 || len(here) < s.spec.MinNodes && !s.awaitsMembers() {
		return false
	}
	s.dropIdle()
	return true
}

// dropIdle has nodes that are lost leave the job while no ranks run.
func (s *session) dropIdle() {
	for _, n := range slices.Clone(s.nodes) {
		if n.isLost() {
			s.recordFailure(n, n.lossText(n.err))
			s.settings.notify(fmt.Sprintf("%s is lost: %s; %s", n.name, n.lossText(n.err), s.leave(n, s.spares())))
		}
	}
}

// meet has the remaining nodes agree again on where they meet: node 0 may be another.
func (s *session) meet() (err error) {
	s.masterAddr, s.peers, s.membersChanged = "", nil, false
	if len(s.nodes) == 1 {
		s.rank0Node, s.nodes[0].facts.Endpoint = 0, plan.Endpoint{}
		if s.listener != nil {
			if at := s.listener.Addr().Addr(); !at.IsUnspecified() { // else ranks take the loopback address
				s.masterAddr, s.peers = at.String(), []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}
			}
		}
		return nil
	}
	if s.rank0Node, err = job.HostOfRank0(&s.spec, factsOf(s.nodes)); err != nil {
		return usageErrors(err)
	}
	return s.chooseMaster()
}
