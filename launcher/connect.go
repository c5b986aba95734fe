package launcher

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// thisHost is where ranks run if nobody says anything else.
var thisHost = hosts.Host{Name: "localhost", Here: true}

// connect starts the agents of all nodes, those on other hosts all at once.
func (s *session) connect(ctx context.Context) error {
	if s.spec.Join != nil {
		return s.meetNodes(ctx)
	}
	list := s.spec.Hosts
	if len(list) == 0 {
		list = []hosts.Host{thisHost}
	}
	if err := s.buildPrograms(ctx, list); err != nil {
		return err
	}
	byEngine := s.spec.StartedByEngine()
	for i, h := range list {
		if byEngine {
			h.Here = false // it comes as all others do: as a part of the manager's job
		}
		s.nodes = append(s.nodes, &node{index: i, host: h, name: h.Name, notify: s.settings.notify})
	}
	if len(list) == 1 && s.nodes[0].host.Here {
		s.nodes[0].name = "this host"
		s.serveLocally(s.nodes[0])
		return nil
	}
	s.heartbeat.start(&s.spec, s.nodes) // others may take long, or ask for a password
	end := s.showProgress(list)
	defer end()
	if byEngine {
		return s.connectByEngine(ctx, list)
	}
	if s.settings.reacher == nil {
		s.settings.reacher = s.newShellReacher()
	}
	return s.forEach(func(n *node) error { return s.connectTo(ctx, n) })
}

// connectByEngine has a resource manager start all agents.
func (s *session) connectByEngine(ctx context.Context, list []hosts.Host) error {
	if err := s.gatherByEngine(ctx, list); err != nil {
		return err
	}
	for _, n := range s.nodes {
		n.engine = s.engine
	}
	return s.engine.explain(s.forEach(func(n *node) error { return s.connectTo(ctx, n) }))
}

// showProgress lets the user see how far the hosts are until end is called.
func (s *session) showProgress(list []hosts.Host) (end func()) {
	s.progress = newProgress(list)
	if s.settings.progress == nil {
		return func() {}
	}
	return s.settings.progress(s.progress)
}

func (s *session) connectTo(ctx context.Context, n *node) (err error) {
	defer func() { s.progress.finished(n.index, err) }()
	n.notify = func(text string) { s.settings.notify(n.name + ": " + text) }
	if n.host.Here {
		s.serveLocally(n)
		return nil
	}
	ctx, cancel := s.prompts.limit(s.progress.watch(ctx, n.index), s.reachTimeout())
	defer cancel()
	w, err := s.settings.reacher.reach(ctx, n.host)
	if err != nil {
		return err
	}
	kind := wire.PeerSSH
	if n.engine != nil {
		kind = wire.PeerEngine
	}
	n.setLink(wire.NewLink(reach.Queued(w.stream)), kind)
	n.end, n.copied = w.end, w.copied
	n.listen()
	return n.send(&wire.Ping{Sent: time.Now(), Lease: s.spec.Lease()})
}

// serveHere starts the agent of this host, and listens to it.
func (s *session) serveLocally(n *node) {
	head, side := reach.Local()
	n.setLink(head, wire.PeerLocal)
	n.served = make(chan error, 1)
	cfg := s.agentConfig()
	if s.monitor != nil {
		cfg.Settled = s.monitor.agentSettled
	}
	go func() { n.served <- agent.Serve(side, cfg) }()
	n.listen()
}

// each does something for every node at once, and reports what failed as one list in
// the nodes' order: what is the same on several nodes once.
func (s *session) forEach(do func(*node) error) error {
	if len(s.nodes) == 1 && s.nodes[0].host.Here {
		return do(s.nodes[0])
	}
	errs := make([]error, len(s.nodes))
	var busy sync.WaitGroup
	for i, n := range s.nodes {
		busy.Go(func() { errs[i] = do(n) })
	}
	busy.Wait()
	return s.joinErrors(errs)
}

// trouble is an error and the nodes that have it.
type nodeFailure struct {
	Error
	general Error
	names   []string
}

// join makes one list of what failed on the nodes.
func (s *session) joinErrors(errs []error) error {
	var troubles []*nodeFailure
	for i, err := range errs {
		for _, e := range flatten(err) {
			troubles = s.addFailure(troubles, s.nodes[i], e)
		}
	}
	var all *multierror.Error
	for _, t := range troubles {
		e := t.Error
		if len(t.names) > 1 {
			e.Text = t.general.Text + afterText(t.after)
		}
		if e.Code == job.ExitNotFound && e.Hint == "" {
			e.Hint = s.copyHint(e.Text)
		}
		if len(t.names) < len(s.nodes) || t.target != "" || e.Code != job.ExitUsage && !s.includesThisHost() {
			e.Text = hosts.Fold(t.names) + ": " + e.Text
		}
		all = multierror.Append(all, &e)
	}
	return all.ErrorOrNil()
}

// ranksHere reports whether this host is among the job's: what holds for all of them
// holds for the one where the user reads it.
func (s *session) includesThisHost() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.host.Here })
}

// copyHint is the way out where a program is missing on other hosts and is here.
func (s *session) copyHint(text string) string {
	for _, app := range s.spec.Apps {
		if !strings.HasPrefix(text, app.Program+": ") || !strings.Contains(app.Program, "/") {
			continue
		}
		if info, err := os.Stat(app.Program); err == nil && info.Mode().IsRegular() {
			return "--copy " + app.Program + " sends this host's to the others"
		}
	}
	return ""
}

func (s *session) addFailure(troubles []*nodeFailure, n *node, e *Error) []*nodeFailure {
	general := e.withoutHost()
	for _, t := range troubles {
		if t.general == general {
			t.names, t.after = append(t.names, n.name), max(t.after, e.after)
			return troubles
		}
	}
	return append(troubles, &nodeFailure{*e, general, []string{n.name}})
}

// flatten lists what an error consists of.
func flatten(err error) (list []*Error) {
	var several *multierror.Error
	var one *Error
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, e := range several.Errors {
			list = append(list, flatten(e)...)
		}
	case errors.As(err, &one):
		list = append(list, one)
	default:
		list = append(list, failure(err.Error()))
	}
	return list
}
