package interop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// served is a running `gorun store`.
type served struct {
	*running
	addr netip.AddrPort
}

// serve starts `gorun store` and returns once it accepts connections. The store stops at stop or at the end of the
// test.
func serve(t *testing.T, args ...string) served {
	t.Helper()
	return serveAs(t, gorun(append([]string{"store"}, args...)...))
}

// serveAs is like serve, for a command that becomes `gorun store`.
func serveAs(t *testing.T, command job) served {
	t.Helper()
	s := served{running: command.start(t)}
	t.Cleanup(func() { // runs before start's cleanup, which requires that the process is gone
		_ = s.command.Process.Signal(syscall.SIGTERM) // the process may have ended
		<-s.ended
	})
	require.True(t, s.until(t, &s.stdout, "\n", 1), "no address: %s", s.stderr.String())
	addr, err := netip.ParseAddrPort(strings.TrimSpace(s.stdout.String()))
	require.NoError(t, err)
	s.addr = addr
	return s
}

// stop stops the store and returns its output.
func (s served) stop(t *testing.T) string {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	got := s.wait(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, s.addr.String()+"\n", got.stdout)
	return got.stderr
}

// knockVariable names an address of this host that is not loopback. Role "knock" connects from it to the job's
// store on loopback, so the store must refuse it.
const knockVariable = "INTEROP_KNOCK_FROM"

// knock reports whether the store at a loopback port accepts a client that connects from an address.
func knock(from string, port string) (accepted bool, err error) {
	return knockAt(net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}, net.JoinHostPort("127.0.0.1", port))
}

// knockAt is like knock, for a store at any address.
func knockAt(dialer net.Dialer, address string) (accepted bool, err error) {
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	hello := []byte{0, 0xCE, 0xF7, 0x85, 0x3C, 13, 1, 2, 3, 4} // VALIDATE, then PING, which the server answers
	if _, err = conn.Write(hello); err != nil {
		return false, nil
	}
	_, err = io.ReadFull(conn, make([]byte, 4))
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return false, nil
	}
	return err == nil, err
}

// knockUserVariable makes role "knock" connect as another user of this host.
const knockUserVariable = "INTEROP_KNOCK_USER"

func playKnock() int {
	if uid, err := strconv.Atoi(os.Getenv(knockUserVariable)); err == nil {
		if err := syscall.Setuid(uid); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	accepted, err := knock(os.Getenv(knockVariable), os.Getenv("MASTER_PORT"))
	fmt.Println(accepted, err)
	return 0
}

// outsideAddress is an IPv4 address of this host other than loopback.
func outsideAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			return prefix.Addr().String()
		}
	}
	testneeds.Skip(t, "network", "this host has no IPv4 address beside loopback")
	return ""
}

func TestStoreRefusesOtherHosts(t *testing.T) {
	from := outsideAddress(t)
	s := serve(t, "--listen", "0.0.0.0:0")
	for range 2 {
		accepted, err := knock(from, fmt.Sprint(s.addr.Port()))
		require.NoError(t, err)
		require.False(t, accepted)
	}
	said := s.stop(t)
	require.Equal(t, 1, strings.Count(said, "refused a connection from "+from), said)
	require.Contains(t, said, "--allow-from "+from+" accepts it")
	require.Contains(t, said, "; connections: 0, operations: 0, keys at the end: 0, refused: 2")
}

func TestStoreAcceptsAllowedHosts(t *testing.T) {
	from := outsideAddress(t)
	s := serve(t, "--listen", "0.0.0.0:0", "--allow-from", "203.0.113.0/24", "--allow-from", from)
	accepted, err := knock(from, fmt.Sprint(s.addr.Port()))
	require.NoError(t, err)
	require.True(t, accepted)
	require.Regexp(t,
		`^gorun: the store served for \S+; connections: 1, operations: 1, keys at the end: 0, refused: 0\n$`, s.stop(t))
}

// A job's store has the same option as `gorun store`.
func TestJobAcceptsAllowedHosts(t *testing.T) {
	from := outsideAddress(t)
	visit := func(args ...string) result {
		args = append(append([]string{"-n", "1", "--master-addr", "0.0.0.0"}, args...), self(t))
		return gorun(args...).with(roleVariable+"=knock", knockVariable+"="+from).run(t)
	}
	refused := visit()
	require.Equal(t, "false <nil>\n", refused.stdout, refused.stderr)
	require.Contains(t, refused.stderr, "--allow-from "+from+" accepts it")
	accepted := visit("--allow-from", from+"/16")
	require.Equal(t, result{stdout: "true <nil>\n"}, accepted)
	useless := gorun("-n", "1", "--allow-from", "10.0.0.0/8", self(t)).with(roleVariable + "=tell").run(t)
	require.Contains(t, useless.stderr, "--allow-from has no effect: the store listens at 127.0.0.1:")
}

// The store refuses other users of the host, even one that the job itself started.
func TestJobRefusesOtherUsers(t *testing.T) {
	testneeds.Root(t)
	visit := func(args ...string) result {
		args = append(append([]string{"-n", "1"}, args...), self(t))
		return gorun(args...).with(roleVariable+"=knock", knockVariable+"=127.0.0.1", knockUserVariable+"=54321").run(t)
	}
	refused := visit()
	require.Equal(t, "false <nil>\n", refused.stdout, refused.stderr)
	require.Contains(t, refused.stderr,
		"it belongs to user 54321, and only root may connect on this host; --allow-local-users accepts every user of "+
			"this host")
	require.Equal(t, result{stdout: "true <nil>\n"}, visit("--allow-local-users"))
}
