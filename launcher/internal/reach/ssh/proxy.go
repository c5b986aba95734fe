package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/process/child"
	"gorun/launcher/internal/reach/remote"
)

// proxy is the connection that a proxy command makes of its standard streams.
type proxy struct {
	line    string
	command *child.Cmd
	in      *os.File // what we write
	out     *os.File // what we read
	said    remote.Tail
	ended   chan struct{}
	once    sync.Once
}

// startProxy starts the proxy command by a shell, in a session of its own.
func (c *Client) startProxy(s *settings) (*proxy, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_, _ = theirIn.Close(), in.Close()
		return nil, err
	}
	p := &proxy{line: s.proxyCommand, in: in, out: out, ended: make(chan struct{})}
	p.command = child.Command("/bin/sh", "-c", "exec "+s.proxyCommand)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = theirIn, theirOut, &p.said
	p.command.Env = c.config.Environ
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.command.WaitDelay = time.Second // a child that keeps its standard error
	err = p.command.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	return p, nil
}

func (p *proxy) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *proxy) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes the streams, at which the command should end. What it says then may be
// the reason for all of it: end makes sure.
func (p *proxy) Close() error {
	return errors.Join(notClosed(p.in.Close()), notClosed(p.out.Close()))
}

// notClosed lets a second Close pass.
func notClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// ending is what is left to do with a proxy command after its connection.
type ending struct{ proxy *proxy }

// Close ends the command.
func (e ending) Close() error { return e.proxy.end() }

// end ends the command.
func (p *proxy) end() error {
	p.once.Do(func() {
		_ = p.Close()
		select {
		case <-p.ended:
		default:
			// Not waited for yet, or about to be: the process group is the session's, whose number nobody else has
			// while a member lives.
			_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
	})
	return nil
}

// lastWords is how long a command that closed its standard output may take to say why.
const lastWords = 500 * time.Millisecond

// words are what the command said on its standard error, once it is over.
func (p *proxy) words() string {
	_ = p.Close()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	_ = p.end()
	if said := lastLines(p.said.String()); said != "" {
		return said
	}
	if state := p.command.ProcessState; state != nil && !state.Success() {
		return state.String()
	}
	return ""
}

// proxyAddress stands for both ends of a proxy's connection.
type proxyAddress struct{}

func (proxyAddress) Network() string { return "proxy" }
func (proxyAddress) String() string  { return "0.0.0.0:0" }

func (p *proxy) LocalAddr() net.Addr                { return proxyAddress{} }
func (p *proxy) RemoteAddr() net.Addr               { return proxyAddress{} }
func (p *proxy) SetDeadline(t time.Time) error      { return p.out.SetDeadline(t) }
func (p *proxy) SetReadDeadline(t time.Time) error  { return p.out.SetReadDeadline(t) }
func (p *proxy) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }

var (
	_ net.Conn  = (*proxy)(nil)
	_ io.Closer = ending{}
)
