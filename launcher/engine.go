package launcher

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorun/env"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/transport/gather"
	"gorun/launcher/job"
)

// AgentJoinWord follows [AgentVerb] where an agent is asked to come to its head by itself;
// behind a colon the name of a file may follow that says where that is.
const AgentJoinWord = "join"

// engineAgents are agents that a resource manager's one command starts on all hosts.
type engineAgents struct {
	*gather.Gathering
	names []string
}

// gathersByEngine reports whether all agents come by one command of a resource manager's.
func (s *session) gathersByEngine() bool {
	e := s.spec.Reach.Engine
	return e != nil && len(e.Once) > 0
}

// gatherByEngine starts the command.
func (s *session) gatherByEngine(ctx context.Context, list []hosts.Host) error {
	cfg := gather.Config{
		Start: *s.spec.Reach.Engine, Addrs: ownAddresses(), Environ: withoutSecret(s.spec.Environ), Dir: s.sharedDir(),
		Version: version.String(), Timeout: s.reachTimeout(), Tell: s.settings.tell, Detail: s.settings.detail,
		Came: s.progress.came,
	}
	for _, h := range list {
		cfg.Nodes = append(cfg.Nodes, h.Name)
	}
	program := s.settings.executable
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return &Error{Code: job.ExitLauncher, Text: err.Error()}
		}
	}
	cfg.Agent = []string{program, AgentVerb, AgentJoinWord}
	s.engine = &engineAgents{Gathering: gather.Begin(ctx, cfg), names: cfg.Nodes}
	s.settings.reacher = s.engine
	return nil
}

// reach waits for a host's agent; that takes no longer than the gathering.
func (e *engineAgents) reach(_ context.Context, h hosts.Host) (way, error) {
	node := slices.Index(e.names, h.Name)
	conn, err := e.Wait(node)
	if err != nil {
		return way{}, err
	}
	return way{stream: conn, end: func() string { return e.Said(node) }}, nil
}

func (e *engineAgents) close() { e.Close() }

// explain makes one error of what each node has seen of a gathering that failed.
func (e *engineAgents) explain(err error) error {
	var failed *gather.Error
	if err == nil || !errors.As(e.failure(), &failed) {
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

func (e *engineAgents) failure() error {
	_, err := e.Wait(0)
	return err
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

// withoutSecret is an environment without the secret of another way to come together.
func withoutSecret(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, env.VarToken+"=") })
}

// sharedDir is a directory of the user's that all nodes most likely see.
func (s *session) sharedDir() string {
	if dir, _ := find(s.spec.Environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gorun")
	}
	if home, _ := find(s.spec.Environ, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "gorun")
	}
	return s.workingDir()
}
