package launcher

import (
	"context"
	"sync"
	"time"

	"gorun/launcher/hosts"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
)

// thisHost is the default host.
var thisHost = hosts.Host{Name: "localhost", Here: true}

// connect starts the agents of all nodes in parallel.
func (s *session) connect(ctx context.Context) error {
	if s.spec.Join != nil {
		return s.meetNodes(ctx)
	}
	if s.settings.Offline {
		return nil
	}
	list := s.listNodes()
	if err := s.buildPrograms(ctx, list); err != nil {
		return err
	}
	byEngine := s.spec.StartedByEngine()
	if len(list) == 1 && s.nodes[0].host.Here && s.left == nil {
		s.nodes[0].name = "this host"
		s.serveLocally(s.nodes[0])
		return nil
	}
	s.heartbeat.start(&s.spec, s.nodes) // reaching other hosts may take long
	end := s.showProgress(list)
	defer end()
	if byEngine {
		return s.connectByEngine(ctx, list)
	}
	if s.settings.reacher == nil {
		s.settings.reacher = s.newShellReacher()
	}
	return s.forEachNeeded(func(n *node) error { return s.connectTo(ctx, n) })
}

// listNodes makes a node for each of the spec's hosts, which it returns.
func (s *session) listNodes() []hosts.Host {
	s.size = s.spec.OwnNodes(len(s.spec.Hosts))
	s.leaveOutQuarantined()
	list := s.spec.Hosts
	if len(list) == 0 {
		list = []hosts.Host{thisHost}
	}
	for i, h := range list {
		if s.spec.StartedByEngine() {
			h.Here = false // its agent starts like all others, inside the manager's job
		}
		s.nodes = append(s.nodes, &node{index: i, host: h, name: h.Name, notify: s.settings.notify})
	}
	s.size = max(s.size, s.ownNodes())
	return list
}

// connectByEngine connects agents that a resource manager starts.
func (s *session) connectByEngine(ctx context.Context, list []hosts.Host) error {
	if err := s.gatherByEngine(ctx, list); err != nil {
		return err
	}
	for _, n := range s.nodes {
		n.engine = s.engine
	}
	return s.engine.explain(s.forEach(func(n *node) error { return s.connectTo(ctx, n) }))
}

// showProgress reports progress until end is called.
func (s *session) showProgress(list []hosts.Host) (end func()) {
	s.progress = newProgress(list)
	return s.settings.Progress(s.progress)
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
	if s.chaos != nil {
		b := &breakableStream{ReadWriteCloser: w.stream}
		w.stream, n.breakLink = b, func() { b.broken.Store(true) }
	}
	n.end, n.copied = w.end, w.copied
	s.attach(n, wire.NewLink(reach.Queued(w.stream)), kind)
	if n.engine != nil { // all come at once, and hello follows, which has the lease
		return nil
	}
	return n.send(&wire.Ping{Sent: time.Now(), Lease: s.spec.Lease()})
}

// serveLocally runs an agent in this process.
func (s *session) serveLocally(n *node) {
	head, side := reach.Local()
	n.served = make(chan error, 1)
	cfg := s.agentConfig()
	cfg.Health = s.health
	if s.listener != nil {
		cfg.SharedPort = s.listener
	}
	if s.monitor != nil {
		cfg.Settled = s.monitor.agentSettled
	}
	go func() { n.served <- agent.Serve(side, cfg) }()
	s.attach(n, head, wire.PeerLocal)
}

// attach gives a node the link to its agent, restricts what the agent may send by its kind, and starts to read it.
func (c *call) attach(n *node, link *wire.Link, kind wire.Peer) {
	n.link, n.kind = link, kind
	link.Guard(kind)
	c.traceFrames(n)
	n.listen()
}

// forEach calls do for all nodes in parallel and merges their errors, in the nodes' order.
func (s *session) forEach(do func(*node) error) error {
	if len(s.nodes) == 1 && s.nodes[0].host.Here {
		return do(s.nodes[0])
	}
	return s.joinErrors(forEachOf(s.nodes, do))
}

// forEachOf calls do for nodes in parallel and returns their errors, in the nodes' order.
func forEachOf(nodes []*node, do func(*node) error) []error {
	errs := make([]error, len(nodes))
	var busy sync.WaitGroup
	for i, n := range nodes {
		busy.Go(func() { errs[i] = do(n) })
	}
	busy.Wait()
	return errs
}
