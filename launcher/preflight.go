package launcher

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/doctor"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/launcher/quarantine"
)

// checkLimit is how long a node may take to answer.
const checkLimit = 2 * time.Second

// checkNodes implements Spec.Check: nodes with problems leave the job, as long as enough are left.
func (s *session) checkNodes() error {
	if !s.spec.Check || s.dryRun {
		return nil
	}
	failed := s.failedChecks(s.nodes)
	return s.forEachNeeded(func(n *node) error { return failed[n.host.Name] })
}

// passing returns those of the nodes that pass the checks. Others are closed.
func (s *session) passing(nodes []*node) []*node {
	if !s.spec.Check || len(nodes) == 0 {
		return nodes
	}
	failed := s.failedChecks(nodes)
	return slices.DeleteFunc(nodes, func(n *node) bool {
		if failed[n.host.Name] != nil {
			n.close()
		}
		return failed[n.host.Name] != nil
	})
}

// failedChecks returns the nodes' problems, by host.
func (s *session) failedChecks(nodes []*node) map[string]error {
	began := time.Now()
	var mu sync.Mutex
	failed, found := map[string]error{}, make([]*doctor.Host, len(nodes))
	forEachOf(nodes, func(n *node) error {
		var checked wire.Checked
		err := n.within(checkLimit, "its state", func() error {
			return n.request(&wire.Check{Quick: true, Limit: checkLimit / 2, Patience: checkLimit / 8}, &checked)
		})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed[n.host.Name] = err
		} else {
			found[slices.Index(nodes, n)] = n.inspected(checked)
		}
		return nil
	})
	cluster := &doctor.Cluster{
		Gorun: version.String(), Asked: len(found),
		Hosts: slices.DeleteFunc(found, func(h *doctor.Host) bool { return h == nil }),
	}
	for _, f := range doctor.Diagnose(cluster, doctor.Quick...) {
		if f.Severity == doctor.Note {
			continue
		}
		for _, name := range f.Hosts {
			failed[name] = multierror.Append(failed[name], &Error{
				Code: job.ExitLauncher, Text: printable.Text("check " + f.Check + ": " + f.Text),
				Hint: "run `gorun explain " + f.Check + "`; repair it by `" + printable.Text(f.Fix) + "`",
			})
		}
	}
	for _, n := range nodes {
		if err := failed[n.host.Name]; err != nil {
			s.recordFailure(n, flatten(err)[0].Text)
		}
	}
	s.settings.detail(fmt.Sprintf("--check: checked %s in %s", plural(len(nodes), "host"),
		time.Since(began).Round(time.Millisecond)))
	return failed
}

// heedsQuarantine reports whether failures of hosts count, and hosts that failed are left out. A resource manager has
// its own list of such hosts, and nodes that join are others' choice.
func (s *session) heedsQuarantine() bool {
	return s.settings.Quarantine != "" && (s.spec.MinNodes > 0 || s.spec.Check) && !s.spec.StartedByEngine() &&
		s.spec.Join == nil
}

// recordFailure adds a failure of a node for all jobs of the user.
func (s *session) recordFailure(n *node, text string) {
	if !s.heedsQuarantine() || s.chaos != nil {
		return
	}
	h, err := quarantine.Fail(s.settings.Quarantine, n.host.Name, text, time.Now())
	if err != nil {
		s.settings.detail("quarantine: " + printable.Error(err))
	} else if !h.Until.IsZero() {
		s.settings.notify(h.String())
	}
}

// quarantined returns the hosts in quarantine, at present, as far as the job heeds them.
func (s *session) quarantined() []quarantine.Host {
	if !s.heedsQuarantine() {
		return nil
	}
	known, err := quarantine.Read(s.settings.Quarantine, time.Now())
	if err != nil {
		s.settings.detail("quarantine: " + printable.Error(err))
	}
	return slices.DeleteFunc(known, func(q quarantine.Host) bool { return q.Until.IsZero() })
}

// outOfQuarantine returns those of nodes whose hosts are in none.
func (s *session) outOfQuarantine(nodes []*node) []*node {
	bad := s.quarantined()
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool {
		return slices.ContainsFunc(bad, func(q quarantine.Host) bool { return q.Name == n.host.Name })
	})
}

// leaveOutQuarantined removes hosts in quarantine from the spec, as long as enough are left. Spares take their places.
// They may come back like hosts that are lost.
func (s *session) leaveOutQuarantined() {
	list := slices.Clone(s.spec.Hosts)
	for _, q := range s.quarantined() {
		at := slices.IndexFunc(list, func(h hosts.Host) bool { return h.Name == q.Name })
		own, text := s.spec.OwnNodes(len(list)), q.String()
		switch {
		case at < 0:
			continue
		case s.spec.MinNodes == 0 || len(list) <= s.spec.MinNodes:
			s.settings.notify(text + "; the job uses it, as it needs all its hosts")
			continue
		case at >= own:
			text += "; it was a spare"
		case own < len(list):
			text += "; spare " + list[own].Name + " takes its place"
			list[at], list[own], at = list[own], list[at], own
		default:
			text += "; " + plural(own-1, "node") + " left"
			s.spec.NumNodes = max(0, s.spec.NumNodes-1)
		}
		out := &node{index: len(s.spec.Hosts) + len(s.left), host: list[at], name: q.Name, notify: s.settings.notify}
		s.left = append(s.left, out)
		list = slices.Delete(list, at, at+1)
		s.settings.notify(text)
	}
	s.spec.Hosts = list
}

// dropQuarantined has nodes with ranks leave the job that came into quarantine while it ran, if it can do without them.
func (s *session) dropQuarantined() {
	for _, q := range s.quarantined() {
		at := slices.IndexFunc(s.nodes[:s.ownNodes()], func(n *node) bool { return n.host.Name == q.Name })
		spares := s.outOfQuarantine(s.standby())
		if at >= 0 && s.spec.MinNodes > 0 && (len(spares) > 0 || s.ownNodes() > s.spec.MinNodes) {
			s.settings.notify(q.String() + "; " + s.leave(s.nodes[at], spares))
		}
	}
}
