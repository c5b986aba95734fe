// Package launcher runs jobs: several processes, the ranks, that know of each
// other and end together.
//
//	result, err := launcher.Run(ctx, launcher.Spec{
//		Apps:    []job.App{{Program: "./trainer"}},
//		PerNode: job.Count{Kind: job.CountFixed, N: 4},
//	})
//
// Run takes a wish and wires the parts that fulfil it: the pure core in
// package job decides, an agent per node acts, and frames over one byte stream
// lie between them. The ranks find each other by the environment that package
// env describes, and meet in a store that the launcher serves.
//
// A program that calls Run should call [Main] first thing in main: should it be
// killed by SIGKILL, the job's guard re-executes it to end what is left.
package launcher

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/internal/version"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach/join"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// Error is a job that could not begin: no rank has run.
type Error struct {
	// Code is the exit code that says so: 2, 125, 126 or 127.
	Code int
	Text string
	Hint string // something to try; "" for none

	step   string        // of reaching a host; "" elsewhere
	target string        // what Text calls that host
	after  time.Duration // what Text ends with; 0: it does not say
}

// general is the error without what is of one host alone.
func (e *Error) withoutHost() Error {
	g := *e
	g.Text, g.after = strings.TrimSuffix(g.Text, afterText(e.after)), 0
	if g.target != "" {
		g.Text, g.Hint = strings.ReplaceAll(g.Text, g.target, "the host"), ""
		g.target = ""
	}
	return g
}

// afterText is how long it took until an error; the same one of several hosts is told once, so it is in seconds.
func afterText(d time.Duration) string {
	if d < minReportedDelay {
		return ""
	}
	return fmt.Sprintf(" (after %s)", d.Round(time.Second))
}

func (e *Error) Error() string { return e.Text }

// failure is an error that no option of the user's has made.
func failure(text string) *Error { return &Error{Code: job.ExitLauncher, Text: text} }

// Run runs a job and returns when nothing of it is left. An error means that
// the job could not begin, and is an *Error or a list of them; how a job ended
// that did begin, well or not, is in its Result. Cancelling ctx ends the job as
// SIGTERM would.
func Run(ctx context.Context, spec Spec, options ...Option) (*Result, error) {
	s, err := open(ctx, spec, options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.joined != nil {
		return s.follow(ctx)
	}
	r, err := s.run(ctx)
	if s.spec.Join != nil {
		s.announce(r, err)
	}
	return r, err
}

func (s *session) run(ctx context.Context) (*Result, error) {
	if err := s.decide(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", s.spec.Apps[0].Program, err)
	}
	result, err := s.runAttempts(ctx)
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// Plan decides everything about a job, as Run would, and starts nothing. What
// only a start can tell (free ports, the job's id) stands as "<at start>".
func Plan(ctx context.Context, spec Spec, options ...Option) (*job.Plan, error) {
	if spec.Join != nil {
		hint := "-H HOST,... asks hosts for a plan without their being started"
		if spec.Join.EngineSignals { // in a step
			hint = "without srun, gorun --dry-run in the allocation shows the plan"
		}
		return nil, &Error{Code: job.ExitUsage, Text: "--dry-run: nodes that join each other are decided about when they " +
			"have come", Hint: hint}
	}
	s, err := open(ctx, spec, options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.planOnly()
}

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

// checkOutput looks at what the user wrote in the small languages of labels and files.
func checkOutput(o job.OutputSpec) error {
	var all *multierror.Error
	if _, err := output.ParseTemplate(o.Template); err != nil {
		all = multierror.Append(all, err)
	}
	for _, p := range [][2]string{
		{"--prepend-pattern", o.Pattern},
		{"--outfile-pattern", o.StdoutFile},
		{"--errfile-pattern", o.StderrFile},
	} {
		if _, err := output.ParsePattern(p[1]); err != nil {
			all = multierror.Append(all, fmt.Errorf("%s %w", p[0], err))
		}
	}
	return all.ErrorOrNil()
}

// gatherLogs has files that ranks of several nodes share written at the head, as Hydra does. In a file system of
// all nodes each would empty the file that others write to, and where each has its own the file would be a part.
func (s *session) collectSharedLogs() {
	o := &s.spec.Output
	for _, name := range []string{o.StdoutFile, o.StderrFile} {
		p, err := output.ParsePattern(name)
		o.LogsToHead = o.LogsToHead || err == nil && name != "" && !p.TellsNodes()
	}
}

// placeLogs makes the paths of log files absolute: a rank finds its error file
// there by TORCHELASTIC_ERROR_FILE, wherever --chdir or itself has taken it.
func (s *session) makeLogPathsAbsolute() {
	o := &s.spec.Output
	for _, name := range []*string{&o.LogDir, &o.StdoutFile, &o.StderrFile} {
		if *name == "" {
			continue
		}
		if absolute, err := filepath.Abs(*name); err == nil { // in a removed directory making the logs will fail, and say so
			*name = absolute
		}
	}
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

// usageErrors makes each error of a list one that says what exit code it is.
func usageErrors(err error) error {
	list := flatten(err)
	if len(list) == 1 {
		return &Error{Code: job.ExitUsage, Text: list[0].Text}
	}
	var all *multierror.Error
	for _, e := range list {
		all = multierror.Append(all, &Error{Code: job.ExitUsage, Text: e.Text})
	}
	return all
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
		cfg.SharedPort = s.listener
	}
	return cfg
}

// file is the file behind a writer, nil if there is none.
func asFile(w any) *os.File {
	f, _ := w.(*os.File)
	return f
}

// tempDir is the ranks' temporary directory, as their environment says.
func (s *session) tempDir() string {
	if dir, _ := lookup(s.spec.Environ, "TMPDIR"); path.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}
