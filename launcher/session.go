package launcher

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/internal/version"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// session is one call of Run or Plan: the wish, and the agents that answer for the nodes. It belongs to the goroutine
// of the caller; what others may touch says so in its own type.
type session struct {
	settings settings
	spec     Spec
	signals  *signals
	monitor  *monitor // nil: the job is in no registry

	// The nodes: those of the wish, and the way to them.
	nodes     []*node
	heartbeat heartbeat
	progress  *Progress // of reaching the hosts, nil with this one alone
	prompts   prompts
	buildDir  string           // where Go programs for other hosts were built; "": none were
	engine    *engineAgents    // those that a resource manager's command started; nil: none did
	joined    *join.Membership // where another node is the head
	listener  *join.Head       // where others come to this one
	health    *agent.Health    // nil: agents answer probes as soon as they have ranks

	// What they said.
	shared    wire.Interner // what several nodes are alike in
	rank0Node int           // the number in nodes of the one that has rank 0
	// master is the address of that which all others reach, "" with one node; peers are where their ranks come from.
	masterAddr string
	peers      []netip.Prefix

	// What was decided.
	ids            job.IDs
	key            []byte // what ranks on several nodes prove to each other that they have; a new one for each job
	plan           *job.Plan
	active         []*node // those that have ranks, as the plan numbers them
	portFromScript bool    // the store's port is the one that a script's own text assigns
	dryRun         bool    // the plan is all that is wanted
}

// begin checks the wish and starts the nodes' agents.
func open(ctx context.Context, spec Spec, options []Option) (*session, error) {
	s := &session{spec: spec, settings: settings{stdout: os.Stdout, stderr: os.Stderr}}
	for _, o := range options {
		o(&s.settings)
	}
	s.signals = newSignals(&s.settings)
	s.monitor = newMonitor(s)
	if s.spec.Environ == nil {
		s.spec.Environ = env.Inherited()
	}
	s.spec.Environ = withoutSecret(s.spec.Environ)
	if err := s.spec.Validate(); err != nil {
		return nil, usageErrors(err)
	}
	s.applyTask()
	if err := checkOutput(s.spec.Output); err != nil {
		return nil, usageErrors(err)
	}
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
	return s, nil
}

// takeSeat completes the wish of such a process.
func (s *session) applyTask() {
	if !s.spec.IsTask() {
		return
	}
	j := *s.spec.Join
	j.NodeRank, j.NumNodes = j.Task.Rank, j.Task.NumRanks
	s.spec.Join, s.spec.PerNode = &j, job.Count{Kind: job.CountFixed, N: 1}
}

// takeProcess changes what belongs to the whole process, where the caller said
// that it may.
func (s *session) claimProcess() error {
	if !s.settings.wholeProcess {
		return nil
	}
	if err := process.SealInherited(); err != nil {
		return failure(err.Error())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err == nil {
		s.settings.subreaper = process.Adopts()
	}
	return nil
}

// openHealth answers liveness probes while nodes wait for each other: whoever asks might else end those that came
// first. Everywhere else each agent does as soon as there are ranks.
func (s *session) serveHealth() (err error) {
	port := s.spec.HealthPort()
	if s.spec.Join == nil || port == "" || s.spec.IsTask() && s.spec.Join.Task.LocalRank != 0 {
		return nil
	}
	if s.health, err = agent.OpenHealth(port, func(format string, args ...any) {
		s.settings.notify(fmt.Sprintf(format, args...))
	}); err != nil {
		return failure(err.Error())
	}
	return nil
}

func (s *session) agentConfig() agent.Config {
	nvml := s.settings.nvml
	if nvml.Beside == "" {
		nvml.Beside = s.settings.executable
	}
	cfg := agent.Config{
		Stdin: s.settings.stdin, Stdout: asFile(s.settings.stdout), Stderr: asFile(s.settings.stderr),
		Inherited: withoutSecret(s.spec.Environ),
		TempDir:   s.tempDir(), Subreaper: s.settings.subreaper, Executable: s.settings.executable, NVML: nvml,
		Version: version.String(),
		Health:  s.health,
	}
	if s.listener != nil {
		cfg.Door = s.listener
	}
	return cfg
}

// close ends the agents, which end whatever of the job is left.
func (s *session) close() {
	if s.heartbeat.stop != nil {
		s.heartbeat.stop()
	}
	_ = s.forEach(func(n *node) error { n.close(); return nil })
	s.monitor.close()
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
