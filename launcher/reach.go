package launcher

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/bootstrap"
	"gorun/launcher/internal/reach/command"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/ssh"
	"gorun/launcher/job"
	nvml "gorun/placement/nvml/worker"
)

// agentStream is a stream of frames to an agent on another host.
type agentStream struct {
	stream io.ReadWriteCloser
	// end describes why the stream ended, such as the agent's last lines; may be nil.
	end func() string
	// copied is what --copy sent; nil for nothing.
	copied *bootstrap.JobDir
}

// reacher starts agents on other hosts.
type reacher interface {
	reach(ctx context.Context, h hosts.Host) (agentStream, error)
	close()
}

// AgentVerb is the first argument of a program that is to call [ServeAgent].
const AgentVerb = "agent"

// shellReacher starts agents by command lines on the hosts, as ssh does.
type shellReacher struct {
	spec    job.ReachSpec
	dial    func(ctx context.Context, h hosts.Host) (remote.Host, error)
	end     func()
	program func() (bootstrap.Program, error)
	bundle  func() (*bootstrap.Bundle, error) // of --copy
	extra   func() []bootstrap.Extra          // programs beside gorun's
	slots   chan struct{}                     // limits how many hosts are reached at once
	limit   time.Duration                     // for how long a host waits for what is copied
}

func (s *session) newShellReacher() *shellReacher {
	spec := s.spec.Reach
	sh := &shellReacher{spec: spec, end: func() {}, slots: make(chan struct{}, cmp.Or(spec.AtOnce, job.DefaultAtOnce))}
	sh.limit = 2 * s.reachTimeout() // prompts delay the launcher's own
	sh.program = sync.OnceValues(s.ownProgram)
	sh.extra = sync.OnceValue(s.extraPrograms)
	sh.bundle = sync.OnceValues(func() (*bootstrap.Bundle, error) {
		return bootstrap.ReadBundle(workingDir(), slices.Concat(spec.Copy, spec.Programs))
	})
	if len(spec.Command) > 0 {
		sh.dial = func(_ context.Context, h hosts.Host) (remote.Host, error) {
			return command.Dial(spec.Command, targetOf(h), s.spec.Environ, s.connectTimeout())
		}
		return sh
	}
	client := ssh.NewClient(ssh.Config{
		ConfigFile: spec.SSHConfig, AcceptNew: spec.AcceptNew, Prompt: s.prompts.wrap(s.settings.Secrets),
		Timeout:        cmp.Or(spec.Timeout, s.settings.loginLimit, s.reachTimeout()),
		ConnectTimeout: s.connectTimeout(), Notify: s.settings.notify, Environ: s.spec.Environ,
	})
	sh.end = client.Close
	sh.dial = func(ctx context.Context, h hosts.Host) (remote.Host, error) {
		return client.Dial(ctx, targetOf(h))
	}
	return sh
}

func targetOf(h hosts.Host) remote.Target {
	return remote.Target{Name: h.Name, User: h.User, Port: h.Port}
}

func (s *session) reachTimeout() time.Duration {
	return cmp.Or(s.spec.Reach.Timeout, job.DefaultReachTimeout)
}

// connectTimeout limits a host's accept; 0: as long as reaching it may take.
func (s *session) connectTimeout() time.Duration {
	if s.spec.Reach.Timeout > 0 {
		return 0
	}
	return job.DefaultConnectTimeout
}

// ownProgram is what is copied to other hosts.
func (s *session) ownProgram() (bootstrap.Program, error) {
	path := s.settings.Executable
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return bootstrap.Program{}, err
		}
	}
	return bootstrap.FindBuilds(path, version.String())
}

// nvidiaDriver exists on hosts whose GPUs NVIDIA's library supports.
const nvidiaDriver = "/proc/driver/nvidia/version"

// extraPrograms adds the program that queries NVIDIA's library if the job depends on it. Hosts
// without it report what is missing.
func (s *session) extraPrograms() []bootstrap.Extra {
	h := s.hello()
	if !h.GPUUsers && !h.GPUNames && !h.GPULinks && !s.spec.Check {
		return nil
	}
	path, err := s.settings.NVML.Find()
	if err != nil {
		return nil
	}
	build, err := bootstrap.ReadBuild(path)
	if err != nil {
		return nil
	}
	return []bootstrap.Extra{{Name: nvml.Name, Build: build, If: nvidiaDriver}}
}

func (sh *shellReacher) close() { sh.end() }

func (sh *shellReacher) reach(ctx context.Context, h hosts.Host) (agentStream, error) {
	select {
	case sh.slots <- struct{}{}:
		defer func() { <-sh.slots }()
	case <-ctx.Done():
		return agentStream{}, reachError(context.Cause(ctx))
	}
	if sh.spec.Agent == "" {
		go sh.program() // reading takes some milliseconds
	}
	host, err := sh.dial(ctx, h)
	if err != nil {
		return agentStream{}, reachError(err)
	}
	copied, err := sh.copy(ctx, host)
	if err == nil {
		var w agentStream
		if w, err = sh.start(ctx, host); err == nil {
			w.copied = copied
			return w, nil
		}
	}
	_ = host.Close()
	return agentStream{}, reachError(err)
}

// copy sends what --copy names.
func (sh *shellReacher) copy(ctx context.Context, host remote.Host) (*bootstrap.JobDir, error) {
	if len(sh.spec.Copy)+len(sh.spec.Programs) == 0 {
		return nil, nil
	}
	bundle, err := sh.bundle()
	if err != nil {
		return nil, &Error{Code: job.ExitUsage, Text: printable.Error(err)}
	}
	return bootstrap.Copy(ctx, host, bundle, sh.limit)
}

// start copies gorun to the host if needed, and starts it.
func (sh *shellReacher) start(ctx context.Context, host remote.Host) (agentStream, error) {
	c := bootstrap.Config{Agent: sh.spec.Agent, Args: []string{AgentVerb}, Limit: sh.limit}
	if sh.spec.Agent == "" {
		program, err := sh.program()
		if err != nil {
			return agentStream{}, failure(printable.Error(err))
		}
		c.Program, c.Extra = program, sh.extra()
	}
	stream, err := bootstrap.Start(ctx, host, c)
	if err != nil {
		return agentStream{}, err
	}
	return agentStream{stream: hostStream{stream, host}, end: stream.LastWords}, nil
}

// hostStream is an agent's stream that owns the connection below it.
type hostStream struct {
	*bootstrap.Stream
	host remote.Host
}

func (h hostStream) Close() error {
	return errors.Join(h.Stream.Close(), h.host.Close())
}

// reachError converts an error of reaching a host. It does not name the host: joinErrors does. It
// mentions the time if the user had to wait.
func reachError(err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	r, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return failure(printable.Error(err))
	}
	text := r.Step.String() + ": " + r.Text
	if r.Step == remote.StepResolve { // its text names the step
		text = r.Text
	}
	e := &Error{Code: job.ExitLauncher, Text: text, Hint: r.Hint, step: r.Step.String(), target: r.Target}
	if !strings.Contains(text, "(waited ") {
		e.after = r.After
		e.Text += afterText(r.After)
	}
	return e
}
