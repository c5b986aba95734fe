package ssh

import (
	"io"
	"net"
	"time"

	"gorun/internal/printable"
	"gorun/launcher/internal/reach/remote"
)

// proxy is the connection that a proxy command makes of its standard streams.
type proxy struct {
	*remote.Program
	line string
}

// keptErrors is how long a child of a proxy command may keep its standard error.
const keptErrors = time.Second

// startProxy starts the proxy command by a shell.
func (c *Client) startProxy(s *settings) (*proxy, error) {
	p, err := remote.Start([]string{"/bin/sh", "-c", "exec " + s.proxyCommand}, c.config.Environ, keptErrors)
	return &proxy{p, s.proxyCommand}, err
}

// Close closes the streams, at which the command should end. What it says then may be
// the reason for all of it: ending makes sure.
func (p *proxy) Close() error {
	p.CloseStreams()
	return nil
}

// ending is what is left to do with a proxy command after its connection.
type ending struct{ proxy *proxy }

// Close ends the command.
func (e ending) Close() error { return e.proxy.Program.Close() }

// lastWords is how long a command that closed its standard output may take to say why.
const lastWords = 500 * time.Millisecond

// words are what the command said on its standard error, once it is over.
func (p *proxy) words() string {
	p.CloseStreams()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-p.Ended:
	case <-timer.C:
	}
	_ = p.Program.Close()
	if said := printable.Text(printable.Short(remote.LastLines(p.Stderr()))); said != "" {
		return said
	}
	if err := p.Wait(); err != nil {
		return err.Error()
	}
	return ""
}

// proxyAddress stands for both ends of a proxy's connection.
type proxyAddress struct{}

func (proxyAddress) Network() string { return "proxy" }
func (proxyAddress) String() string  { return "0.0.0.0:0" }

func (p *proxy) LocalAddr() net.Addr                { return proxyAddress{} }
func (p *proxy) RemoteAddr() net.Addr               { return proxyAddress{} }
func (p *proxy) SetDeadline(t time.Time) error      { return p.Out.SetDeadline(t) }
func (p *proxy) SetReadDeadline(t time.Time) error  { return p.Out.SetReadDeadline(t) }
func (p *proxy) SetWriteDeadline(t time.Time) error { return p.In.SetWriteDeadline(t) }

var (
	_ net.Conn  = (*proxy)(nil)
	_ io.Closer = ending{}
)
