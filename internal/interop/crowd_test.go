package interop

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// A process of role "crowd" holds many connections to a store. All of them wait for the key on its command line:
//
//	ADDR CONNECTIONS KEY
//
// It prints "held" when all connections wait. On the first line of input it checks that no connection received
// anything, and prints "calm". On the second line it reads the wake-up on each connection, and prints "woken".
type crowd []net.Conn

func playCrowd() int {
	connections, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = runCrowd(os.Args[1], connections, os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runCrowd(addr string, connections int, key string) error {
	c, err := gather(addr, connections, key)
	if err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	for _, step := range []struct {
		does func() error
		says string
	}{{func() error { return nil }, "held"}, {c.calm, "calm"}, {c.woken, "woken"}} {
		if err := step.does(); err != nil {
			return err
		}
		fmt.Println(step.says)
		input.Scan()
	}
	return nil
}

// gather opens the connections, from ten addresses in turn, and waits for key on each.
func gather(addr string, connections int, key string) (crowd, error) {
	hello := []byte{0, 0xCE, 0xF7, 0x85, 0x3C} // VALIDATE
	wait := append([]byte{6, 1, 0, 0, 0, 0, 0, 0, 0}, byte(len(key)), 0, 0, 0, 0, 0, 0, 0)
	request := append(append(append(hello, wait...), key...), ping(0)...)
	var c crowd
	for i := range connections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%10))}}
		conn, err := dialer.Dial("tcp", addr)
		if err == nil {
			_, err = conn.Write(request)
		}
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
		c = append(c, conn)
	}
	for i, conn := range c {
		if err := expect(conn, ping(0)[1:]); err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return c, nil
}

// ping is a PING request. The answer repeats its last four bytes.
func ping(n byte) []byte { return []byte{13, 'p', 'n', 'g', n} }

func expect(conn net.Conn, want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("%q came instead of %q", got, want)
	}
	return nil
}

// calm fails unless each connection is served and has received nothing yet.
func (c crowd) calm() error {
	for i, conn := range c {
		if _, err := conn.Write(ping(1)); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	for i, conn := range c {
		if err := expect(conn, ping(1)[1:]); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}

// woken reads the answer to each wait, and checks that nothing follows it.
func (c crowd) woken() error {
	for i, conn := range c {
		if err := expect(conn, []byte{0}); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return c.calm()
}

// comers starts a process of role "crowd" and waits until it holds its connections. next is its standard input.
func comers(t *testing.T, s served, connections int, key string) (r *running, next io.WriteCloser) {
	t.Helper()
	input, next, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { next.Close() })
	argv := []string{self(t), s.addr.String(), strconv.Itoa(connections), key}
	r = job{argv: argv, stdin: input}.with(roleVariable + "=crowd").start(t)
	input.Close()
	require.True(t, r.until(t, &r.stdout, "held\n", 1), r.stderr.String())
	return r, next
}

// enoughFiles skips the test where a process may not open need descriptors.
func enoughFiles(t *testing.T, need uint64) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Max < need {
		testneeds.Skip(t, "descriptors", fmt.Sprintf("the hard limit of open files (ulimit -Hn) is %d, and %d are needed",
			limit.Max, need))
	}
}

// TestCrowd holds 10,000 waiting connections and kills a process that holds some of them. The others stay served,
// receive nothing, and all wake up when the key is set.
func TestCrowd(t *testing.T) {
	all := testneeds.Count(1000, 10000)
	victims := all / 20
	enoughFiles(t, uint64(all/3*4+100))
	s := serve(t)
	rest, next := comers(t, s, all-victims, "/key")
	victim, _ := comers(t, s, victims, "/key")
	victim.signal(t, syscall.SIGKILL)
	require.Equal(t, 137, victim.wait(t).code)

	say(t, next)
	require.True(t, rest.until(t, &rest.stdout, "calm\n", 1), rest.stderr.String())
	client, err := tcpstore.Dial(t.Context(), s.addr.String())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.Set(t.Context(), "key", nil))
	say(t, next)
	require.True(t, rest.until(t, &rest.stdout, "woken\n", 1), rest.stderr.String())
	require.NoError(t, next.Close())
	require.Zero(t, rest.wait(t).code)
	said := s.stop(t)
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.Contains(t, said, fmt.Sprintf("; connections: %d, ", all+1))
	require.Contains(t, said, "keys at the end: 1, refused: 0")
}

func say(t *testing.T, to io.Writer) {
	t.Helper()
	_, err := fmt.Fprintln(to)
	require.NoError(t, err)
}

// If the descriptor limit is too low for all clients, the store reports it and the limit that they need. It serves
// connected clients, and the others when descriptors become free.
func TestCrowdBeyondTheLimitOfDescriptors(t *testing.T) {
	const limit, connections, more = 100, 75, 45
	r := job{argv: []string{"sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s store", limit, built("gorun"))}}
	s := serveAs(t, r)
	first, next := comers(t, s, connections, "/key")
	for range more {
		conn, err := net.Dial("tcp", s.addr.String())
		require.NoError(t, err)
		defer conn.Close()
	}
	last, err := net.Dial("tcp", s.addr.String())
	require.NoError(t, err)
	defer last.Close()
	_, err = last.Write(append([]byte{0, 0xCE, 0xF7, 0x85, 0x3C}, ping(1)...))
	require.NoError(t, err)
	require.True(t, s.until(t, &s.stderr, "(ulimit -Hn)", 1), s.stderr.String())
	require.Regexp(t, `75 connections are open \(that is the limit\), and [1-9]\d* are waiting; `+
		`raise the hard limit of open files \(ulimit -Hn\) from 100 to at least 1\d\d\n$`,
		s.stderr.String())
	say(t, next)
	require.True(t, first.until(t, &first.stdout, "calm\n", 1), first.stderr.String())
	first.signal(t, syscall.SIGKILL)
	require.Equal(t, 137, first.wait(t).code)
	require.NoError(t, expect(last, ping(1)[1:]))
}
