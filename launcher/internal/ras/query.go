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

// DefaultAddr is NCCL's address unless NCCL_RAS_ADDR sets another one.
const DefaultAddr = "localhost:28028"

const (
	defaultTimeout = 8 * time.Second // if the context has no deadline
	// rankTimeout is the timeout for each rank in seconds; if one is stopped, 2.30.7 takes 4 s in all.
	rankTimeout      = 1
	handshakeTimeout = time.Second            // for one process
	maxReply         = 256                    // bytes of a line that replies to a command
	maxStatus        = 16 << 20               // bytes
	pause            = 100 * time.Millisecond // between two attempts
	maxAttempts      = 12                     // at a time
)

// ErrNoAnswer means that a process listens but does not answer.
var ErrNoAnswer = errors.New("nobody answers there")

// Query requests the status at an address, HOST:PORT, until the context ends; for at most 8 s if it has no deadline.
func Query(ctx context.Context, addr string) (Status, error) {
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
		ctx = bounded
	}
	s, err := queryOnce(ctx, addr)
	for errors.Is(err, ErrNoAnswer) && ctx.Err() == nil { // the process ended after the handshake
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		s, err = queryOnce(ctx, addr)
	}
	if err != nil {
		return s, fmt.Errorf("ask NCCL's RAS port at %s: %w", addr, err)
	}
	return s, nil
}

// queryOnce queries the first process that answers.
func queryOnce(ctx context.Context, addr string) (s Status, err error) {
	c, err := connectAny(ctx, addr)
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

// connectAny connects until a process answers. All processes of a host share a port, and the kernel may pick one that
// is stopped and never answers. So the attempts overlap.
func connectAny(ctx context.Context, addr string) (*client, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		c   *client
		err error
	}
	results, pending := make(chan result), 0
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case r := <-results:
			pending--
			if r.err == nil || !errors.Is(r.err, ErrNoAnswer) {
				return r.c, r.err
			}
		case <-next.C:
			next.Reset(pause)
			if pending < maxAttempts {
				pending++
				go func() {
					c, err := connect(ctx, addr)
					select {
					case results <- result{c, err}:
					case <-ctx.Done():
						if c != nil {
							c.conn.Close()
						}
					}
				}()
			}
		case <-ctx.Done():
			return nil, ErrNoAnswer
		}
	}
}

// connect connects to one process.
func connect(ctx context.Context, addr string) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
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
	c := &client{conn: conn, reader: bufio.NewReaderSize(conn, maxReply)}
	if err = c.handshake(); !stop() && err == nil {
		err = ErrNoAnswer // the connection's deadline may be set already
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
	json   bool // the status is in JSON format
}

func (c *client) handshake() error {
	answer, err := c.command("CLIENT PROTOCOL 2")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "SERVER PROTOCOL ") {
		return fmt.Errorf("%.60q is not an answer of NCCL", answer)
	}
	if answer, err = c.command(fmt.Sprintf("TIMEOUT %d", rankTimeout)); err == nil && answer != "OK" {
		err = fmt.Errorf("TIMEOUT is answered by %.60q", answer)
	}
	if err != nil {
		return err
	}
	answer, err = c.command("SET FORMAT json")
	c.json = answer == "OK"
	return err
}

// command sends a line and returns the reply.
func (c *client) command(line string) (answer string, err error) {
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		return "", noAnswer(err)
	}
	text, err := c.reader.ReadSlice('\n')
	if err != nil {
		return "", noAnswer(err)
	}
	return strings.TrimSpace(string(text)), nil
}

// status requests the status of all ranks.
func (c *client) status() ([]byte, error) {
	if _, err := io.WriteString(c.conn, "VERBOSE STATUS\n"); err != nil {
		return nil, noAnswer(err)
	}
	text, err := io.ReadAll(io.LimitReader(c.reader, maxStatus+1))
	switch {
	case err != nil:
		return nil, noAnswer(err)
	case len(text) == 0:
		return nil, noAnswer(io.EOF)
	case len(text) > maxStatus:
		return nil, fmt.Errorf("the answer is longer than %d MiB", maxStatus>>20)
	}
	return text, nil
}

// noAnswer wraps an error of a connection that ended or timed out, because its process ended or is stopped.
func noAnswer(err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return errors.New("a line of the answer is too long for NCCL's")
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}
