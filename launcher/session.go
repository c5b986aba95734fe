package launcher

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/httpserver"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// call is what one call of Run, Plan, CheckHosts or ServeAgent works with. The caller's goroutine
// completes it before the first rank starts; afterwards it does not change, and every goroutine may
// read it.
type call struct {
	settings settings
	spec     Spec
	opened   time.Time // when the caller called Run or Plan
	signals  *signals
	monitor  *monitor // nil without Options.Registry
	queries  queries
	chaos    *chaos        // nil without --chaos
	engine   *engineAgents // nil unless a resource manager's command starts the agents

	preemption preemption
}

// cluster is the job's nodes and what connects them to this process. It belongs to the caller's
// goroutine.
type cluster struct {
	nodes []*node // in the order of Spec.Hosts
	left  []*node // that have left the job
	size  int     // how many nodes are to have ranks
	// membersChanged says that the nodes have not met since some came or went.
	membersChanged bool
	generation     int // counts changes of the nodes between attempts
	growth         growth
	heartbeat      heartbeat
	progress       *Progress // nil for a job on this host alone
	prompts        prompts
	buildDir       string           // has Go programs that were built for other hosts; "" without any
	joined         *join.Membership // set if another node is the head
	listener       *join.Head       // set if other nodes join this one
	health         *agent.Health    // nil: agents answer liveness probes once they have ranks
	metrics        *httpserver.Server
}

// decision is the plan and what leads to it. It belongs to the caller's goroutine.
type decision struct {
	dryRun         bool
	shared         wire.Interner  // of facts that nodes have in common
	rank0Node      int            // index in cluster.nodes
	masterAddr     string         // of rank 0's node, reached by all others; "" with one node
	peers          []netip.Prefix // addresses of nodes, which the store lets in
	portFromScript bool           // the store's port comes from the text of a script
	ids            job.IDs
	key            []byte // proves to ranks on other nodes that a rank belongs to the job
	plan           *job.Plan
	active         []*node // nodes with ranks, by their number in the plan
}

// session is one call of Run or Plan from its options to its end.
type session struct {
	call
	cluster
	decision
}

func newSession(spec Spec, o Options) *session {
	o.Stdout, o.Stderr = cmp.Or[io.Writer](o.Stdout, os.Stdout), cmp.Or[io.Writer](o.Stderr, os.Stderr)
	if o.HoldSignals == nil {
		o.HoldSignals = func() {}
	}
	if o.Signals == nil {
		o.Signals = func(chan<- os.Signal) {}
	}
	if o.Progress == nil {
		o.Progress = func(*Progress) func() { return func() {} }
	}
	if o.Planned == nil {
		o.Planned = func(*job.Plan) {}
	}
	s := &session{call: call{spec: spec, opened: time.Now(), settings: settings{Options: o}}}
	if s.spec.Environ == nil {
		s.spec.Environ = env.Inherited()
	}
	s.spec.Environ = agent.WithoutToken(s.spec.Environ)
	return s
}

// open checks the spec and starts the agents.
func open(ctx context.Context, spec Spec, dryRun bool, o Options) (*session, error) {
	s := newSession(spec, o)
	s.dryRun = dryRun
	s.settings.Offline = s.settings.Offline && dryRun
	s.signals, s.preemption = newSignals(&s.settings), newPreemption(&s.spec)
	s.monitor = newMonitor(&s.call)
	s.chaos = newChaos(&s.spec)
	if err := s.spec.Validate(); err != nil {
		return nil, usageErrors(err)
	}
	s.applyTask()
	if err := checkOutput(s.spec.Output); err != nil {
		return nil, usageErrors(err)
	}
	s.nameLogFiles()
	s.collectSharedLogs()
	s.makeLogPathsAbsolute()
	if err := s.findExecutable(); err != nil {
		return nil, err
	}
	if err := s.claimProcess(); err != nil {
		return nil, err
	}
	if err := s.serveHealth(); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		s.close()
		return nil, err
	}
	if err := s.serveMetrics(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// applyTask turns a process that a resource manager started as one rank into a node with one rank.
func (s *session) applyTask() {
	if !s.spec.IsTask() {
		return
	}
	j := *s.spec.Join
	j.NodeRank, j.NumNodes = j.Task.Rank, j.Task.NumRanks
	s.spec.Join, s.spec.PerNode = &j, job.Count{Kind: job.CountFixed, N: 1}
}

// elapsed returns how long the call has taken, for details.
func (c *call) elapsed() time.Duration { return time.Since(c.opened).Round(100 * time.Microsecond) }

// claimProcess implements AsWholeProcess.
func (c *call) claimProcess() (err error) {
	if !c.settings.WholeProcess {
		return nil
	}
	if c.settings.subreaper, err = process.Claim(); err != nil {
		return failure(printable.Error(err))
	}
	return nil
}

// serveHealth answers liveness probes while nodes wait for each other, lest an orchestrator restarts
// the first ones. Otherwise each agent answers them once it has ranks.
func (s *session) serveHealth() (err error) {
	port := s.spec.HealthPort()
	if s.spec.Join == nil || port == "" || s.spec.IsTask() && s.spec.Join.Task.LocalRank != 0 {
		return nil
	}
	if s.health, err = agent.OpenHealth(port, func(format string, args ...any) {
		s.settings.notify(fmt.Sprintf(format, args...))
	}); err != nil {
		return failure(printable.Error(err))
	}
	return nil
}

// agentConfig configures an agent in this process.
func (c *call) agentConfig() agent.Config {
	return agent.Config{
		Stdin: c.settings.Stdin, Stdout: asFile(c.settings.Stdout), Stderr: asFile(c.settings.Stderr),
		Inherited: agent.WithoutToken(c.spec.Environ), TempDir: c.tempDir(), Subreaper: c.settings.subreaper,
		Executable: c.settings.Executable, NVML: c.settings.NVML, Version: version.String(),
	}
}

// close ends the agents, and thereby all processes of the job.
func (s *session) close() {
	if s.heartbeat.stop != nil {
		s.heartbeat.stop()
	}
	s.nodes = append(s.nodes, s.left...)
	_ = s.forEach(func(n *node) error { n.close(); return nil })
	s.monitor.close()
	s.metrics.Close()
	s.health.Close()
	if s.settings.reacher != nil {
		s.settings.reacher.close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.buildDir != "" {
		_ = os.RemoveAll(s.buildDir)
	}
	if s.joined != nil {
		_ = s.joined.Conn.Close()
	}
}
