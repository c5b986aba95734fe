package agent

import (
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
)

// firstLease limits an agent's wait for the launcher's first frame: a link may be cut before that.
const firstLease = 15 * time.Second

// Standalone completes the Config of an agent that is a process of its own, and claims the process for it.
func Standalone(c Config) (Config, error) {
	adopts, err := process.Claim()
	environ := env.Inherited()
	c.Environ, c.Inherited, c.TempDir = environ, WithoutToken(environ), TempDir(environ)
	c.Subreaper, c.Lease = adopts, firstLease
	return c, err
}

// ServeStreams is Serve for a launcher at the other end of two files, such as the standard streams of a command that
// SSH runs.
func ServeStreams(in, out *os.File, c Config) error {
	in = pollable(in)
	c.Link = in
	err := Serve(wire.NewLink(reach.Queued(pair{in, pollable(out)})), c)
	if err == io.EOF { // the launcher is done
		return nil
	}
	return err
}

// ServeConn is Serve for a launcher at the other end of a connection, encrypted or not.
func ServeConn(conn net.Conn, c Config) error {
	socket := conn
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		socket = encrypted.NetConn()
	}
	c.Link, _ = socket.(syscall.Conn)
	return Serve(wire.NewLink(reach.Queued(conn)), c)
}

// WithoutToken removes the secret of joining nodes: neither ranks nor programs that reach hosts may get it.
func WithoutToken(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, env.VarToken+"=") })
}

// TempDir returns the ranks' TMPDIR.
func TempDir(environ []string) string {
	if dir := lookup(environ, "TMPDIR"); path.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// pair is a stream made of two files.
type pair struct{ in, out *os.File }

func (p pair) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p pair) Write(b []byte) (int, error) { return p.out.Write(b) }

func (p pair) Close() error {
	_ = p.out.Close()
	return p.in.Close()
}

// pollable returns the file such that Close interrupts Read, if it supports that.
func pollable(f *os.File) *os.File {
	fd := int(f.Fd()) // Fd makes the file blocking
	if unix.SetNonblock(fd, true) != nil {
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}
