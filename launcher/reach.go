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

	"gorun/internal/version"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/reach/bootstrap"
	"gorun/launcher/internal/reach/command"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/ssh"
	"gorun/launcher/job"
	nvml "gorun/placement/nvml/worker"
)

// way is a stream of frames to an agent on another host.
type way struct {
	stream io.ReadWriteCloser
	// end says what is known of why it ended, such as the agent's last words; nil for
	// nothing.
	end func() string
	// copied is what --copy sent there; nil for nothing.
	copied *bootstrap.JobDir
}

// reacher starts agents on other hosts.
type reacher interface {
	reach(ctx context.Context, h hosts.Host) (way, error)
	close()
}

// AgentVerb is the word by which a program that calls [ServeAgent] for it is asked to
// be an agent.
const AgentVerb = "agent"

// shell starts agents by command lines on the hosts, as ssh does.
type shell struct {
	wish    job.ReachSpec
	dial    func(ctx context.Context, h hosts.Host) (remote.Host, error)
	end     func()
	program func() (bootstrap.Program, error)
	bundle  func() (*bootstrap.Bundle, error) // of --copy
	extra   func() []bootstrap.Extra          // what belongs beside the program
	places  chan struct{}                     // bounds the hosts that are being reached
}

// newShell is how other hosts are reached unless a test says otherwise.
func (s *session) newShell() *shell {
	wish := s.spec.Reach
	sh := &shell{wish: wish, end: func() {}, places: make(chan struct{}, cmp.Or(wish.AtOnce, job.DefaultAtOnce))}
	sh.program = sync.OnceValues(s.ownProgram)
	sh.extra = sync.OnceValue(s.extraPrograms)
	sh.bundle = sync.OnceValues(func() (*bootstrap.Bundle, error) {
		return bootstrap.ReadBundle(s.workingDir(), slices.Concat(wish.Copy, wish.Programs))
	})
	if len(wish.Command) > 0 {
		sh.dial = func(_ context.Context, h hosts.Host) (remote.Host, error) {
			return command.Dial(wish.Command, targetOf(h), s.spec.Environ, s.connectTimeout())
		}
		return sh
	}
	client := ssh.NewClient(ssh.Config{
		ConfigFile: wish.SSHConfig, AcceptNew: wish.AcceptNew, Prompt: s.asking.wrap(s.settings.ask),
		Timeout:        cmp.Or(wish.Timeout, s.settings.loginLimit, s.reachTimeout()),
		ConnectTimeout: s.connectTimeout(), Notify: s.settings.tell, Environ: s.spec.Environ,
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

// connectTimeout is how long a host may take to accept a connection; 0: as long as reaching it takes.
func (s *session) connectTimeout() time.Duration {
	if s.spec.Reach.Timeout > 0 {
		return 0
	}
	return job.DefaultConnectTimeout
}

// ownProgram is what is copied to other hosts.
func (s *session) ownProgram() (bootstrap.Program, error) {
	path := s.settings.executable
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return bootstrap.Program{}, err
		}
	}
	return bootstrap.FindBuilds(path, version.String())
}

// worthTelling is from when on a time is said.
const worthTelling = time.Second

// nvidiaDriver is on hosts whose GPUs NVIDIA's library knows.
const nvidiaDriver = "/proc/driver/nvidia/version"

// extraPrograms is the program that asks NVIDIA's library, where the job depends on what
// only that knows. Without it such hosts say what is missing.
func (s *session) extraPrograms() []bootstrap.Extra {
	h := s.hello()
	if !h.GPUUsers && !h.GPUNames && !h.GPULinks {
		return nil
	}
	path, err := s.settings.nvml.Find()
	if err != nil {
		return nil
	}
	build, err := bootstrap.ReadBuild(path)
	if err != nil {
		return nil
	}
	return []bootstrap.Extra{{Name: nvml.Name, Build: build, If: nvidiaDriver}}
}

func (sh *shell) close() { sh.end() }

func (sh *shell) reach(ctx context.Context, h hosts.Host) (way, error) {
	select {
	case sh.places <- struct{}{}:
		defer func() { <-sh.places }()
	case <-ctx.Done():
		return way{}, reachError(context.Cause(ctx))
	}
	if sh.wish.Agent == "" {
		go sh.program() // it takes some milliseconds to read
	}
	host, err := sh.dial(ctx, h)
	if err != nil {
		return way{}, reachError(err)
	}
	copied, err := sh.copy(ctx, host)
	if err == nil {
		var w way
		if w, err = sh.start(ctx, host); err == nil {
			w.copied = copied
			return w, nil
		}
	}
	_ = host.Close()
	return way{}, reachError(err)
}

// copy sends what --copy names.
func (sh *shell) copy(ctx context.Context, host remote.Host) (*bootstrap.JobDir, error) {
	if len(sh.wish.Copy)+len(sh.wish.Programs) == 0 {
		return nil, nil
	}
	bundle, err := sh.bundle()
	if err != nil {
		return nil, &Error{Code: job.ExitUsage, Text: err.Error()}
	}
	return bootstrap.Copy(ctx, host, bundle)
}

// start brings gorun to the host, where it isn't yet, and starts it.
func (sh *shell) start(ctx context.Context, host remote.Host) (way, error) {
	c := bootstrap.Config{Agent: sh.wish.Agent, Args: []string{AgentVerb}}
	if sh.wish.Agent == "" {
		program, err := sh.program()
		if err != nil {
			return way{}, failure(err.Error())
		}
		c.Program, c.Extra = program, sh.extra()
	}
	stream, err := bootstrap.Start(ctx, host, c)
	if err != nil {
		return way{}, err
	}
	return way{stream: hosted{stream, host}, end: stream.Stderr}, nil
}

// hosted is an agent's stream with the connection that carries it.
type hosted struct {
	*bootstrap.Stream
	host remote.Host
}

func (h hosted) Close() error {
	return errors.Join(h.Stream.Close(), h.host.Close())
}

// reachError is why a host could not be reached, as an error of the launcher's. It does
// not name the host: who makes one list of what failed on the nodes does.
//
// How long it took is said where somebody waited for it.
func reachError(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var r *remote.Error
	if !errors.As(err, &r) {
		return failure(err.Error())
	}
	text := r.Step.String() + ": " + r.Text
	e := &Error{Code: job.ExitLauncher, Text: text, Hint: r.Hint, step: r.Step.String(), target: r.Target}
	if !strings.Contains(text, "(waited ") {
		e.after = r.After
		e.Text += afterText(r.After)
	}
	return e
}
