package ras

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// DefaultAddr is where NCCL listens unless NCCL_RAS_ADDR says otherwise.
const DefaultAddr = "localhost:28028"

// Limits of asking.
const (
	askTime = 8 * time.Second // where the context has no deadline
	// seconds that NCCL gives each rank; with one that is stopped 2.30.7 then takes 4 s in all
	collectTime  = 1
	greetingTime = time.Second            // for one process to greet
	mostGreeting = 256                    // bytes of a line that answers a command
	mostAnswer   = 16 << 20               // bytes
	pause        = 100 * time.Millisecond // between two knocks
	mostKnocks   = 12                     // at once
)

// ErrNoAnswer is that somebody listens who does not answer.
var ErrNoAnswer = errors.New("nobody answers there")

// Ask asks at an address, HOST:PORT, and takes no longer than the context allows, 8 s where that has no deadline.
func Query(ctx context.Context, addr string) (Status, error) {
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		ctx = bounded
	}
	s, err := askGreeted(ctx, addr)
	for errors.Is(err, ErrNoAnswer) && ctx.Err() == nil { // it has ended since
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		s, err = askGreeted(ctx, addr)
	}
	if err != nil {
		return s, fmt.Errorf("ask NCCL's RAS port at %s: %w", addr, err)
	}
	return s, nil
}

// askGreeted asks the first that greets.
func askGreeted(ctx context.Context, addr string) (s Status, err error) {
	c, err := firstGreeted(ctx, addr)
	if err != nil {
		return s, err
	}
	defer c.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := c.status()
	if err != nil {
		return s, err
	}
	if c.json {
		return ParseJSON(text)
	}
	return ParseText(text)
}

// firstGreeted knocks until somebody greets. All processes of a host listen at one port, and the kernel chooses one of
// them for each connection: also one that is stopped, of which nothing is heard. So the next knock does not wait for
// the one before.
func firstGreeted(ctx context.Context, addr string) (*client, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		c   *client
		err error
	}
	answers, knocks := make(chan answer), 0
	defer func() {
		cancel()
		go func() { // who greets later is let go
			for range knocks {
				if late := <-answers; late.c != nil {
					late.c.conn.Close()
				}
			}
		}()
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case a := <-answers:
			knocks--
			if a.err == nil || !errors.Is(a.err, ErrNoAnswer) {
				return a.c, a.err
			}
		case <-next.C:
			next.Reset(pause)
			if knocks < mostKnocks {
				knocks++
				go func() {
					c, err := knock(ctx, addr)
					answers <- answer{c, err}
				}()
			}
		case <-ctx.Done():
			return nil, ErrNoAnswer
		}
	}
}

// knock connects to one process and greets it.
func knock(ctx context.Context, addr string) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, greetingTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ErrNoAnswer
		}
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c := &client{conn: conn, reader: bufio.NewReaderSize(conn, mostGreeting)}
	if err = c.greet(); !stop() && err == nil {
		err = ErrNoAnswer // its deadline may be set by now
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// client is one connection.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	json   bool // the answer comes as JSON
}

// greet makes the two sides known to each other.
func (c *client) greet() error {
	answer, err := c.command("CLIENT PROTOCOL 2")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "SERVER PROTOCOL ") {
		return fmt.Errorf("%.60q is no answer of NCCL's", answer)
	}
	if answer, err = c.command(fmt.Sprintf("TIMEOUT %d", collectTime)); err == nil && answer != "OK" {
		err = fmt.Errorf("TIMEOUT is answered by %.60q", answer)
	}
	if err != nil {
		return err
	}
	answer, err = c.command("SET FORMAT json")
	c.json = answer == "OK"
	return err
}

// command sends a line and returns the one that answers it.
func (c *client) command(line string) (answer string, err error) {
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		return "", silent(err)
	}
	text, err := c.reader.ReadSlice('\n')
	if err != nil {
		return "", silent(err)
	}
	return strings.TrimSpace(string(text)), nil
}

// status asks for everything.
func (c *client) status() ([]byte, error) {
	if _, err := io.WriteString(c.conn, "VERBOSE STATUS\n"); err != nil {
		return nil, silent(err)
	}
	text, err := io.ReadAll(io.LimitReader(c.reader, mostAnswer+1))
	switch {
	case err != nil:
		return nil, silent(err)
	case len(text) > mostAnswer:
		return nil, fmt.Errorf("the answer is longer than %d MiB", mostAnswer>>20)
	}
	return text, nil
}

// silent is an error of a connection that ended or took too long, as a process that ends or is stopped has it.
func silent(err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return errors.New("a line of the answer is too long for NCCL's")
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}
