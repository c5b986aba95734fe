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
	askTime      = 8 * time.Second        // where the context has no deadline
	collectTime  = 1                      // seconds that NCCL gives each rank; with one that is stopped 2.30.7 then takes 4 s in all
	greetingTime = 700 * time.Millisecond // then another process of the job is tried: one that is stopped still gets connections
	mostGreeting = 256                    // bytes of a line that answers a command
	mostAnswer   = 16 << 20               // bytes
	pause        = 20 * time.Millisecond  // between two tries
)

// ErrSilent is that somebody listens who does not answer.
var ErrSilent = errors.New("nobody answers there")

// Ask asks at an address, HOST:PORT, and takes no longer than the context allows, 8 s where that has no deadline. It tries again, by
// another process where there are several, as long as nobody has answered.
func Ask(ctx context.Context, addr string) (Status, error) {
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		ctx = bounded
	}
	for {
		s, err := askOnce(ctx, addr)
		if err == nil || !errors.Is(err, ErrSilent) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, err
		case <-time.After(pause):
		}
	}
}

// askOnce asks one process.
func askOnce(ctx context.Context, addr string) (s Status, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			return s, fmt.Errorf("ask NCCL's RAS port at %s: %w", addr, ErrSilent)
		}
		return s, fmt.Errorf("ask NCCL's RAS port: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := &client{conn: conn, reader: bufio.NewReaderSize(conn, mostGreeting)}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(earlier(deadline, time.Now().Add(greetingTime)))
	json, err := c.greet()
	if err != nil {
		return s, fmt.Errorf("ask NCCL's RAS port at %s: %w", addr, err)
	}
	_ = conn.SetDeadline(deadline)
	text, err := c.status()
	if err != nil {
		return s, fmt.Errorf("ask NCCL's RAS port at %s: %w", addr, err)
	}
	if json {
		return ParseJSON(text)
	}
	return ParseText(text)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// client is one connection.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
}

// greet makes the two sides known to each other and reports whether the answer comes as JSON.
func (c *client) greet() (json bool, err error) {
	answer, err := c.command("CLIENT PROTOCOL 2")
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(answer, "SERVER PROTOCOL ") {
		return false, fmt.Errorf("%.60q is no answer of NCCL's", answer)
	}
	if answer, err = c.command(fmt.Sprintf("TIMEOUT %d", collectTime)); err == nil && answer != "OK" {
		err = fmt.Errorf("TIMEOUT is answered by %.60q", answer)
	}
	if err != nil {
		return false, err
	}
	answer, err = c.command("SET FORMAT json")
	return answer == "OK", err
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
	return fmt.Errorf("%w: %w", ErrSilent, err)
}
