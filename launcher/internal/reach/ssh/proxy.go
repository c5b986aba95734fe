package ssh

import (
	"errors"
	"net"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// proxy is the connection over the standard streams of a proxy command.
type proxy struct {
	*remote.Program
	line string
}

// stderrDelay limits how long a child of a proxy command may keep its standard error.
const stderrDelay = time.Second

// startProxy starts the proxy command by a shell.
func (c *Client) startProxy(s *settings) (*proxy, error) {
	p, err := remote.Start([]string{"/bin/sh", "-c", "exec " + s.proxyCommand}, c.config.Environ, stderrDelay)
	return &proxy{p, s.proxyCommand}, err
}

// Close closes the streams, at which the command should end. It does not kill the command, whose last output may be the
// reason for the end: see kill.
func (p *proxy) Close() error {
	p.CloseStreams()
	return nil
}

// kill kills the command, if there is one.
func (p *proxy) kill() {
	if p != nil {
		_ = p.Program.Close()
	}
}

// explain adds the command's output, if there is one, to an error that followed from it.
func (p *proxy) explain(err error) error {
	if p == nil {
		return err
	}
	_, isDropped := errors.AsType[*droppedError](err)
	failure, isFailure := errors.AsType[*remote.Error](err)
	if !isDropped && (!isFailure || failure.Step > remote.StepKeys) {
		return err // the command has done its part
	}
	output := p.lastOutput()
	switch {
	case output == "":
		return err
	case isDropped:
		return fail(remote.StepConnect, err, "proxy command %q ended the connection: %s", p.line, output)
	}
	return fail(failure.Step, err, "%s; proxy command: %s", failure.Text, output)
}

// lastOutputTimeout limits how long a command may take to print the reason after it closed its standard output.
const lastOutputTimeout = 500 * time.Millisecond

// lastOutput ends the command and returns its last lines on standard error, or its exit status.
func (p *proxy) lastOutput() string {
	p.CloseStreams()
	select {
	case <-p.Ended:
	case <-time.After(lastOutputTimeout):
	}
	p.kill()
	if lines := printable.Text(printable.Short(remote.LastLines(p.Stderr()))); lines != "" {
		return lines
	}
	if err := p.Wait(); err != nil {
		return err.Error()
	}
	return ""
}

// proxyAddress is the address of both ends of a proxy's connection.
type proxyAddress struct{}

func (proxyAddress) Network() string { return "proxy" }
func (proxyAddress) String() string  { return "0.0.0.0:0" }

func (p *proxy) LocalAddr() net.Addr                { return proxyAddress{} }
func (p *proxy) RemoteAddr() net.Addr               { return proxyAddress{} }
func (p *proxy) SetDeadline(t time.Time) error      { return p.Out.SetDeadline(t) }
func (p *proxy) SetReadDeadline(t time.Time) error  { return p.Out.SetReadDeadline(t) }
func (p *proxy) SetWriteDeadline(t time.Time) error { return p.In.SetWriteDeadline(t) }
