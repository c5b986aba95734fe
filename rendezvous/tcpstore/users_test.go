package tcpstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// roleVariable selects another role of the test binary.
const roleVariable = "TCPSTORE_TEST_ROLE"

var roles = map[string]func(args []string){
	"attack": attack, "leave": leave, "crowd": crowd, "serve": serveAs, "squat": squat, "reserve": reserveAs,
}

// otherUser is an unused user ID.
const otherUser = 54321

// as returns the test binary in a role, as another user.
func as(uid uint32, role string, args ...string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	command.Stderr = os.Stderr
	return command
}

// does runs a role to its end, and returns its output.
func does(t *testing.T, uid uint32, role string, args ...string) string {
	t.Helper()
	out, err := as(uid, role, args...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// during runs a role until the test ends, and returns the first line of its output.
func during(t *testing.T, uid uint32, role string, args ...string) string {
	t.Helper()
	command := as(uid, role, args...)
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func untilStdinEnds() { _, _ = io.Copy(io.Discard, os.Stdin) }

const gloosKey = "default_pg/0//cpu//0/0"

// attack lists the keys and replaces the address of Gloo's rank 0.
func attack(args []string) {
	ctx := context.Background()
	c := &Client{addr: args[0], links: map[*link]struct{}{}} // Dial would retry
	if _, err := c.connect(ctx); err != nil {
		fmt.Println("refused")
		return
	}
	fmt.Println(try(c.Keys(ctx)), c.Set(ctx, gloosKey, []byte("mine")))
}

func try[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// leave sends a request for all keys and disconnects before the server looks up its user.
func leave(args []string) {
	conn := try(net.Dial("tcp", args[0]))
	_ = try(conn.Write(append(append([]byte(nil), greeting...), request(opSet, text("/"+gloosKey), text("mine"))...)))
	_ = conn.Close()
}

// crowd opens connections until standard input ends, and prints how many are served.
func crowd(args []string) {
	served := 0
	for range try(strconv.Atoi(args[1])) {
		conn := try(net.Dial("tcp", args[0]))
		_, err := conn.Write(append(append([]byte(nil), greeting...), opPing, 1, 2, 3, 4))
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 4))
		}
		if err == nil {
			served++
		}
	}
	fmt.Println(served)
	untilStdinEnds()
}

// serveAs serves a store until standard input ends.
func serveAs([]string) {
	s := try(Listen(Config{}))
	fmt.Println(s.Addr())
	untilStdinEnds()
	_ = s.Close()
}

// gloo returns a store with the address of Gloo's rank 0.
func gloo(t *testing.T, cfg Config) (opened, *Client) {
	s := open(t, cfg)
	c := dial(t, s)
	require.NoError(t, c.Set(t.Context(), gloosKey, []byte("rank 0's")))
	return s, c
}

func TestAnotherUserIsRefused(t *testing.T) {
	testneeds.Root(t)
	for _, host := range []string{"127.0.0.1", "::1", "::"} {
		s, c := gloo(t, Config{Host: host, AllowLocalUsersOption: "--allow-local-users"})
		at := s.Addr().String()
		if host == "::" {
			at = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Addr().Port())))
		}
		for range 2 {
			require.Equal(t, "refused", does(t, otherUser, "attack", at))
		}
		require.Equal(t, "refused", does(t, otherUser+1, "attack", at))
		value, err := c.Get(t.Context(), gloosKey)
		require.NoError(t, err)
		require.Equal(t, "rank 0's", string(value))
		require.Len(t, strings.Split(s.log.text(), "\n"), 2, "each user is named once")
		require.Regexp(t,
			`^the store refused a connection from (127\.0\.0\.1|::1): it belongs to user 54321, and `+
				`only root may connect on this host; --allow-local-users accepts every user of this host\n`,
			s.log.text())
	}
}

// The addresses of this host belong to the job's hosts, but that must not admit its other users.
func TestAnotherUserIsRefusedAtEveryAddress(t *testing.T) {
	testneeds.Root(t)
	s, _ := gloo(t, Config{Host: "::", Allow: everybody})
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		prefix := netip.MustParsePrefix(a.String())
		if !prefix.Addr().IsLinkLocalUnicast() {
			require.Equal(t, "refused",
				does(t, otherUser, "attack", netip.AddrPortFrom(prefix.Addr(), s.Addr().Port()).String()), a)
		}
	}
}

func TestAllowLocalUsers(t *testing.T) {
	testneeds.Root(t)
	s, _ := gloo(t, Config{AllowLocalUsers: true})
	require.Equal(t, "["+gloosKey+"] <nil>", does(t, otherUser, "attack", s.Addr().String()))
}

// The server accepts the same user and root.
func TestOwnUserAndRootAreServed(t *testing.T) {
	testneeds.Root(t)
	at := during(t, otherUser, "serve")
	require.Equal(t, "[] <nil>", does(t, otherUser, "attack", at))
	require.Equal(t, "["+gloosKey+"] <nil>", does(t, 0, "attack", at))
	require.Equal(t, "refused", does(t, otherUser+1, "attack", at))
}

// The kernel reports root as the owner of a socket that no process holds any more.
func TestClosedConnectionIsNotTakenForRoots(t *testing.T) {
	testneeds.Root(t)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	log := &logbook{}
	s, err := ListenNowhere(Config{Logf: log.logf, AllowLocalUsersOption: "--allow-local-users"},
		l.Addr().(*net.TCPAddr).AddrPort())
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, does(t, otherUser, "leave", l.Addr().String()))
	conn, err := l.AcceptTCP()
	require.NoError(t, err)
	require.NoError(t, s.Take(conn, nil))
	require.Zero(t, s.Snapshot().Keys)
	require.Zero(t, s.Clients())
	require.Contains(t, log.text(),
		"its user is unknown (no process on this host has its other end open), and only root may connect")
}

// Connections of other users cannot displace clients.
func TestAnotherUserCannotCrowdOut(t *testing.T) {
	testneeds.Root(t)
	s := open(t, Config{Limits: Limits{Connections: 4}})
	require.Equal(t, "0", during(t, otherUser, "crowd", s.Addr().String(), "4"))
	for range 4 {
		greet(t, s).ping()
	}
}
