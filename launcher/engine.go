package launcher

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/reach/gather"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// AgentJoinWord follows [AgentVerb] for an agent that calls [JoinAgent]; ":FILE" may be appended.
const AgentJoinWord = "join"

// engineAgents are agents that one command of a resource manager starts on all hosts.
type engineAgents struct {
	*gather.Gathering
	names      []string
	conns      []net.Conn // by name
	failed     error      // why they did not connect
	job        string     // for messages: "Slurm job 17"
	title      string     // "Slurm"
	preemption *preemption
	endingSeen chan struct{} // closed when the resource manager begins to end the job
	once       sync.Once
}

// gatherByEngine starts the command and waits for the agents.
func (s *session) gatherByEngine(ctx context.Context, list []hosts.Host) error {
	cfg := gather.Config{
		Start: *s.spec.Reach.Engine, Addrs: ownAddresses(), Environ: s.spec.Environ, Dir: s.sharedDir(),
		Version: version.String(), Timeout: s.reachTimeout(), Arrived: s.progress.agentArrived, Detail: s.settings.detail,
	}
	for _, h := range list {
		cfg.Nodes = append(cfg.Nodes, h.Name)
	}
	if len(s.spec.Reach.Copy) > 0 {
		return &Error{
			Code: job.ExitUsage, Text: "--copy: " + s.spec.Reach.Engine.Job +
				" starts the agents, and no files can be sent before that",
			Hint: "put the files where all nodes see them, or add `--engine none` to use SSH",
		}
	}
	program := cmp.Or(s.spec.Reach.Agent, s.settings.Executable)
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return failure(printable.Error(err))
		}
	}
	cfg.Agent = []string{program, AgentVerb, AgentJoinWord}
	s.engine = &engineAgents{
		names: cfg.Nodes, job: s.spec.Reach.Engine.Job, title: s.spec.Reach.Engine.Title,
		preemption: &s.preemption, endingSeen: make(chan struct{}),
	}
	cfg.Ending = s.engine.markEnding
	if s.spec.MinNodes > 0 {
		cfg.NodeFailed = s.loseByEngine
	}
	s.settings.reacher = s.engine
	s.engine.Gathering, s.engine.conns, s.engine.failed = gather.Start(ctx, cfg)
	return nil
}

func (e *engineAgents) reach(_ context.Context, h hosts.Host) (agentStream, error) {
	if e.failed != nil {
		return agentStream{}, e.failed
	}
	node := slices.Index(e.names, h.Name)
	return agentStream{stream: e.conns[node], end: func() string { return cmp.Or(e.LastMessage(node), e.ExitText()) }}, nil
}

func (e *engineAgents) close() { e.Close() }

// explain replaces the nodes' errors by that of the gathering if it failed.
func (e *engineAgents) explain(err error) error {
	var failed *gather.Error
	if err == nil || !errors.As(e.failed, &failed) {
		return err
	}
	text := failed.Text
	if len(failed.Missing) > 0 {
		var names []string
		for _, node := range failed.Missing {
			names = append(names, e.names[node])
		}
		text = hosts.NodeList(names) + ": " + text
	}
	return &Error{Code: job.ExitLauncher, Text: printable.Text(text), Hint: printable.Text(failed.Hint)}
}

// loseByEngine drops a node that the resource manager takes away from the job, whose agent may still run.
func (s *session) loseByEngine(name string) {
	for _, n := range *s.heartbeat.nodes.Load() {
		if n.host.Name == name && n.linked.Load() {
			n.abandon(s.engine.title + " reports that the node has failed")
		}
	}
}

func (e *engineAgents) markEnding() { e.once.Do(func() { close(e.endingSeen) }) }

// onSignal handles a signal that a node's agent received. Slurm suspends and resumes jobs with
// SIGTSTP and SIGCONT: https://slurm.schedmd.com/scontrol.html.
func (e *engineAgents) onSignal(n *node, m wire.Signalled) error {
	switch {
	case e == nil, e.preemption.isNotice(m.Signal):
	case m.Signal == syscall.SIGTSTP:
		n.suspended.Store(true)
	case m.Signal == syscall.SIGCONT:
		n.suspended.Store(false)
	case job.Ends(m.Signal):
		e.markEnding()
	}
	return nil
}

// onEngineSignal also posts the signal, since ranks run.
func (h *head) onEngineSignal(n *node, m wire.Signalled) error {
	if n.engine != nil && m.Signal > 0 && m.Signal <= maxSignal {
		at, now := n.clock.toLocal(m.At), time.Now()
		if at.After(now) || now.Sub(at) > maxSignalAge {
			at = now
		}
		h.post(job.EngineSignalled{Signal: m.Signal, At: at})
		if h.preemption.isNotice(m.Signal) {
			h.queryTimeLeft()
		}
	}
	return n.engine.onSignal(n, m)
}

// maxSignalAge limits how far a node may date a signal back.
const maxSignalAge = time.Minute

// ending is closed when the resource manager begins to end the job; nil for nil agents.
func (e *engineAgents) ending() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.endingSeen
}

// signalledInStep explains SIGTERM in a step: only srun learns the cause, and no other resource
// manager is known to signal ranks as well as gorun.
const signalledInStep = "as Slurm ends jobs (scancel, a time limit, preemption): srun says which"

// endingLimit is how long a finished job waits for the resource manager's reason to end it: on a busy machine, srun
// learnt of a cancellation over a second after it had reached the agents.
const endingLimit = 3 * time.Second

// attribute adds the resource manager's reason to a result. It does not wait for one if the job can go on.
func (e *engineAgents) attribute(r *job.Result, goesOn bool) {
	limit := time.Duration(0)
	if !goesOn && (r.Cause == job.CauseEngine || r.MaybeByEngine()) {
		limit = endingLimit
	}
	r.SetEngine(e.title, e.job, e.Ending(limit))
}

// ownAddresses lists this host's addresses, the most plausible for others first, and loopback last
// for agents on this host.
func ownAddresses() (list []netip.Addr) {
	all, _ := probe.Candidates(os.DirFS("/")) // on error only loopback is left
	probe.Sort(all, false)
	for _, c := range all {
		if !c.Addr.IsLoopback() && !c.Addr.IsLinkLocalUnicast() && !slices.Contains(list, c.Addr) {
			list = append(list, c.Addr)
		}
	}
	return append(list, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}
