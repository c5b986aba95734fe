package launcher

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/launcher/internal/agent"
	"gorun/launcher/internal/transport"
	"gorun/launcher/internal/wire"
)

// ServeAgent makes this process the agent of one node: it starts and ends ranks as a
// head says that speaks on the other side of in and out, and returns when the
// connection has ended and nothing of the job is left here. The process exists for
// that alone: what was said of [AsWholeProcess] holds.
func ServeAgent(in, out *os.File, options ...Option) error {
	s := &session{settings: settings{wholeProcess: true}, spec: Spec{Environ: env.Inherited()}}
	for _, o := range options {
		o(&s.settings)
	}
	if err := s.takeProcess(); err != nil {
		return err
	}
	cfg := s.agentConfig()
	cfg.Environ, cfg.Lease = s.spec.Environ, firstLease
	err := agent.Serve(wire.NewLink(transport.Queued(pair{pollable(in), pollable(out)})), cfg)
	if err == io.EOF { // the head needs it no longer
		return nil
	}
	return err
}

// firstLease is how long an agent waits for the first word of its head, which speaks at
// once: a link may be cut before that.
const firstLease = 15 * time.Second

// pair is a stream of two files.
type pair struct{ in, out *os.File }

func (p pair) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p pair) Write(b []byte) (int, error) { return p.out.Write(b) }

func (p pair) Close() error {
	_ = p.out.Close()
	return p.in.Close()
}

// pollable is the same file so that Close ends a Read, where the file can do that.
func pollable(f *os.File) *os.File {
	fd := int(f.Fd()) // blocking from here on
	if unix.SetNonblock(fd, true) != nil {
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}
