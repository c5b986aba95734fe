package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/program"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// countDevices calls torchrun's own function, as only a plug-in of PyTorch may know the device. The module path
// excludes the working directory, as with torchrun. The count is the last line, after anything that plug-ins print.
const countDevices = `import sys
sys.path[:] = [p for p in sys.path if p]
from torch.distributed.run import determine_local_world_size
try:
    count = determine_local_world_size(sys.argv[1])
except ValueError as e:
    sys.exit(str(e))
print(f"\n{count}")`

// sendCounted adds the number of devices to the facts and sends them. Loading PyTorch takes long; the agent answers
// heartbeats meanwhile.
func (a *Agent) sendCounted(h *wire.Hello, facts *wire.Facts) {
	n, err := a.count(h, facts.Programs, countLimit)
	if err != nil {
		facts.DeviceError = err.Error()
	}
	facts.Ranks = n
	a.counted.Store(int32(n))
	_ = a.link.Send(facts) // the head may be gone
}

// maxDevices is the maximum number of devices on a node.
const maxDevices = 1 << 16

// countLimit bounds the count: PyTorch may be on a slow file system, and drivers may hang.
const countLimit = 2 * time.Minute

func (a *Agent) count(h *wire.Hello, programs []spec.Program, limit time.Duration) (int, error) {
	python, err := a.pythonOf(h, programs)
	if err != nil {
		return 0, err
	}
	late := fmt.Errorf("%s did not answer within %v", python, limit)
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, late)
	defer cancel()
	go func() {
		select {
		case <-a.lease.linkClosed:
			cancel()
		case <-ctx.Done():
		}
	}()
	runtime.LockOSThread() // Pdeathsig is tied to the thread
	defer runtime.UnlockOSThread()
	cmd := child.CommandContext(ctx, python, "-c", countDevices, h.Device)
	cmd.Env = append(append([]string{}, a.cfg.Inherited...), h.Environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, stderr lastLine
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, context.Cause(ctx)
		}
		if stderr.text() == "" {
			return 0, fmt.Errorf("%s: %w", python, err)
		}
		return 0, errors.New(stderr.text())
	}
	n, err := strconv.Atoi(out.text())
	if err != nil || n < 1 || n > maxDevices {
		return 0, fmt.Errorf("%s counts %q of them", python, out.text())
	}
	return n, nil
}

// pythonOf returns the interpreter of the first Python program, or the one that would run such a program.
func (a *Agent) pythonOf(h *wire.Hello, programs []spec.Program) (string, error) {
	for _, p := range programs {
		if strings.HasPrefix(p.Kind, "python") {
			return p.Path, nil
		}
	}
	choice := ""
	if len(h.Programs) > 0 {
		choice = h.Programs[0].Interpreter
	}
	return program.Python(choice, lookupIn(append(h.Environ, a.cfg.Inherited...)))
}

// lastLine is a writer that keeps the last non-empty line, up to maxLastLine bytes.
type lastLine struct{ done, now []byte }

func (l *lastLine) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c != '\n':
			if len(l.now) < maxLastLine {
				l.now = append(l.now, c)
			}
		case len(bytes.TrimSpace(l.now)) > 0:
			l.done, l.now = l.now, l.done[:0]
		}
	}
	return len(p), nil
}

const maxLastLine = 1 << 10

func (l *lastLine) text() string {
	if now := bytes.TrimSpace(l.now); len(now) > 0 {
		return string(now)
	}
	return string(bytes.TrimSpace(l.done))
}
