package launcher

import (
	"cmp"
	"context"
	"errors"
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

// AgentJoinWord follows [AgentVerb] where an agent is asked to come to its head by itself;
// behind a colon the name of a file may follow that says where that is.
const AgentJoinWord = "join"

// engineAgents are agents that a resource manager's one command starts on all hosts.
type engineAgents struct {
	*gather.Gathering
	names      []string
	job        string        // as people name it: "Slurm job 17"
	title      string        // the resource manager: "Slurm"
	endingSeen chan struct{} // closed when the resource manager has begun to end the job
	once       sync.Once
}

// gatherByEngine starts the command.
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
				" starts the agents, and nothing can be sent before them",
			Hint: "put the files where all nodes see them; --engine none goes by SSH",
		}
	}
	program := cmp.Or(s.spec.Reach.Agent, s.settings.executable)
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return failure(err.Error())
		}
	}
	cfg.Agent = []string{program, AgentVerb, AgentJoinWord}
	s.engine = &engineAgents{
		names: cfg.Nodes, job: s.spec.Reach.Engine.Job, title: s.spec.Reach.Engine.Title,
		endingSeen: make(chan struct{}),
	}
	cfg.Ending = s.engine.markEnding
	s.engine.Gathering = gather.Start(ctx, cfg)
	s.settings.reacher = s.engine
	return nil
}

// reach waits for a host's agent; that takes no longer than the gathering.
func (e *engineAgents) reach(_ context.Context, h hosts.Host) (agentStream, error) {
	node := slices.Index(e.names, h.Name)
	conn, err := e.Wait(node)
	if err != nil {
		return agentStream{}, err
	}
	return agentStream{stream: conn, end: func() string { return cmp.Or(e.LastMessage(node), e.ExitText()) }}, nil
}

func (e *engineAgents) close() { e.Close() }

// explain makes one error of what each node has seen of a gathering that failed.
func (e *engineAgents) explain(err error) error {
	var failed *gather.Error
	if err == nil || !errors.As(e.err(), &failed) {
		return err
	}
	text := failed.Text
	if len(failed.Missing) > 0 {
		var names []string
		for _, node := range failed.Missing {
			names = append(names, e.names[node])
		}
		text = hosts.Fold(names) + ": " + text
	}
	return &Error{Code: job.ExitLauncher, Text: printable.Text(text), Hint: printable.Text(failed.Hint)}
}

func (e *engineAgents) err() error {
	_, err := e.Wait(0)
	return err
}

// ends notes that the resource manager has begun to end the job.
func (e *engineAgents) markEnding() { e.once.Do(func() { close(e.endingSeen) }) }

// signalled hears of a signal that a node's agent has got; nil: it is no agent of this kind. SIGTSTP and SIGCONT are
// what Slurm suspends and resumes jobs with: https://slurm.schedmd.com/scontrol.html.
func (e *engineAgents) onSignal(n *node, m wire.Signalled) error {
	switch {
	case e == nil:
	case m.Signal == syscall.SIGTSTP:
		n.suspended.Store(true)
	case m.Signal == syscall.SIGCONT:
		n.suspended.Store(false)
	case job.Ends(m.Signal):
		e.markEnding()
	}
	return nil
}

// engineSignalled hears of such a signal while ranks run.
func (h *head) onEngineSignal(n *node, m wire.Signalled) error {
	if n.engine != nil && m.Signal > 0 && m.Signal <= maxSignal {
		at, now := n.clock.toLocal(m.At), time.Now()
		if at.After(now) || now.Sub(at) > maxSignalAge {
			at = now
		}
		h.post(job.EngineSignalled{Signal: m.Signal, At: at})
	}
	return n.engine.onSignal(n, m)
}

// signalAge is how old the news of a signal may be; else its time is not believed.
const maxSignalAge = time.Minute

// ending is closed when the resource manager has begun to end the job; nil: there is none.
func (e *engineAgents) ending() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.endingSeen
}

// signalledInStep is what SIGTERM may mean in a step. Why it came is told to srun alone,
// and no other resource manager is known to signal the ranks as well.
const signalledInStep = "as Slurm ends jobs (scancel, a time limit, preemption): srun says which"

// verdictLimit is how long the resource manager may take to say why it ended a job, once
// nothing of it is left.
const endingLimit = time.Second

// judge says of a job that the resource manager has ended why it has.
func (e *engineAgents) attribute(r *job.Result) {
	limit := time.Duration(0)
	if r.Cause == job.CauseEngine || r.MaybeByEngine() {
		limit = endingLimit
	}
	r.SetEngine(e.title, e.job, e.Ending(limit))
}

// ownAddresses are this host's, those by which others most plausibly reach it first, and
// loopback last, by which agents on this host do.
func ownAddresses() (list []netip.Addr) {
	all, _ := probe.Candidates(os.DirFS("/")) // without any, loopback may do
	probe.Sort(all, false)
	for _, c := range all {
		if !c.Addr.IsLoopback() && !c.Addr.IsLinkLocalUnicast() && !slices.Contains(list, c.Addr) {
			list = append(list, c.Addr)
		}
	}
	return append(list, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}
