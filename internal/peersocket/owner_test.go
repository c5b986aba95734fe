package peersocket

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// roleVariable makes the test binary another process.
const roleVariable = "PEERSOCKET_TEST_ROLE"

// otherUser is a user id that nobody here has.
const otherUser = 54321

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "stay": // connected until standard input ends
		conn := must(net.Dial("tcp", os.Args[1]))
		fmt.Println("connected")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = conn.Close()
	case "go": // says something and is gone
		conn := must(net.Dial("tcp", os.Args[1]))
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}
}

func must(conn net.Conn, err error) net.Conn {
	if err != nil {
		panic(err)
	}
	return conn
}

// as is the test binary in a role, as another user.
func as(uid uint32, role string, args ...string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	command.Stderr = os.Stderr
	return command
}

// descriptor is that of a connection, which outlives its use here.
func descriptor(t testing.TB, conn any) int {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var fd int
	require.NoError(t, raw.Control(func(n uintptr) { fd = int(n) }))
	return fd
}

// connected are both ends of a connection to a listener at an address.
func connected(t testing.TB, listen, dial string) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	theirs, err = net.Dial("tcp", net.JoinHostPort(dial, port))
	require.NoError(t, err)
	ours, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// inode is the number of a connection's socket.
func inode(t testing.TB, conn net.Conn) (n uint64) {
	t.Helper()
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", descriptor(t, conn)))
	require.NoError(t, err)
	_, err = fmt.Sscanf(link, "socket:[%d]", &n)
	require.NoError(t, err)
	return n
}

// found is what both ways say of the other end.
func found(t testing.TB, conn net.Conn) (byDiag, byTables Owner) {
	t.Helper()
	var f Finder
	defer f.Close()
	c, err := EndsOf(descriptor(t, conn))
	require.NoError(t, err)
	byDiag, err = f.Owner(c)
	require.NoError(t, err)
	byTables, err = findInTables(c.reversed())
	require.NoError(t, err)
	require.True(t, f.works, "the kernel answers here")
	return byDiag, byTables
}

func TestOwner(t *testing.T) {
	for _, way := range []struct{ name, listen, dial string }{
		{"IPv4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"IPv4 to a socket of IPv6", "[::]:0", "127.0.0.1"},
		{"IPv4 in IPv6's notation", "127.0.0.1:0", "::ffff:127.0.0.1"},
	} {
		t.Run(way.name, func(t *testing.T) {
			ours, theirs := connected(t, way.listen, way.dial)
			for _, conn := range [][2]net.Conn{{ours, theirs}, {theirs, ours}} {
				byDiag, byTables := found(t, conn[0])
				require.Equal(t, Owner{UID: os.Geteuid(), Inode: inode(t, conn[1])}, byDiag)
				require.Equal(t, byDiag, byTables)
				require.True(t, byDiag.Trusted())
			}
		})
	}
}

func TestListeners(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", at)
		require.NoError(t, err)
		defer l.Close()
		found, err := Listeners()
		require.NoError(t, err)
		all, err := ReadTables("self")
		require.NoError(t, err)
		here := func(s Socket) bool {
			return s.State == unix.BPF_TCP_LISTEN && int(s.Local.Port()) == l.Addr().(*net.TCPAddr).Port
		}
		i, j := slices.IndexFunc(found, here), slices.IndexFunc(all, here)
		all[j].Remote = netip.AddrPort{}
		require.Equal(t, all[j], found[i])
	}
}

// A socket of IPv6 that is connected to an IPv4 address by the notation of IPv6, which Go's dialer avoids.
func TestTraffic(t *testing.T) {
	for _, listen := range []string{"127.0.0.1", "::1"} {
		ours, theirs := connected(t, net.JoinHostPort(listen, "0"), listen)
		_, err := theirs.Write(make([]byte, 5000))
		require.NoError(t, err)
		_, err = io.ReadFull(ours, make([]byte, 5000))
		require.NoError(t, err)
		bytes, err := Traffic()
		require.NoError(t, err)
		require.EqualValues(t, 5000, bytes[inode(t, ours)])
		require.Positive(t, bytes[inode(t, theirs)], "what the kernel has acknowledged by now")
	}
}

func TestOwnerOfMappedSocket(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t,
		unix.Connect(fd, &unix.SockaddrInet6{Port: port, Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}))
	ours, err := l.Accept()
	require.NoError(t, err)
	defer ours.Close()
	byDiag, byTables := found(t, ours)
	require.Equal(t, os.Geteuid(), byDiag.UID)
	require.Equal(t, byTables, byDiag)
}

func TestOwnerIsAnotherUser(t *testing.T) {
	testneeds.Root(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	command := as(otherUser, "stay", l.Addr().String())
	end, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	byDiag, byTables := found(t, conn)
	require.Equal(t, otherUser, byDiag.UID)
	require.Equal(t, byDiag, byTables)
	require.False(t, byDiag.Trusted())
	require.NoError(t, end.Close())
	require.NoError(t, command.Wait())
}

// Who says something and closes at once leaves a socket without a process, of which the kernel says that it is root's.
func TestOrphanHasNoOwner(t *testing.T) {
	testneeds.Root(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, as(otherUser, "go", l.Addr().String()).Run())
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	var f Finder
	defer f.Close()
	c, err := EndsOf(descriptor(t, conn))
	require.NoError(t, err)
	_, err = f.Owner(c)
	require.ErrorIs(t, err, ErrUnknown)
	_, err = findInTables(c.reversed())
	require.ErrorIs(t, err, ErrUnknown)
	said := make([]byte, 5)
	_, err = io.ReadFull(conn, said)
	require.NoError(t, err)
	require.Equal(t, "hello", string(said), "what it said is there nevertheless")
}

// The kernel answers by a socket that listens where it knows no connection with these ends.
func TestListenerIsNoPeer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var f Finder
	defer f.Close()
	_, err = f.query(Ends{Local: l.Addr().(*net.TCPAddr).AddrPort(), Remote: netip.MustParseAddrPort("127.0.0.1:1")})
	require.ErrorIs(t, err, ErrUnknown)
}

func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = EndsOf(descriptor(t, l))
	require.ErrorContains(t, err, "getpeername")
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { unix.Close(fds[0]); unix.Close(fds[1]) }()
	_, err = EndsOf(fds[0])
	require.ErrorContains(t, err, "not a TCP connection")
}

func TestLocal(t *testing.T) {
	var f Finder
	defer f.Close()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, at := range addresses {
		prefix := netip.MustParsePrefix(at.String())
		local, err := f.Local(prefix.Addr())
		require.NoError(t, err)
		require.True(t, local, at)
	}
	for address, want := range map[string]bool{
		"127.3.2.1": true, "::ffff:127.0.0.1": true, "203.0.113.1": false, "2001:db8::1": false, "::ffff:203.0.113.1": false,
	} {
		local, err := f.Local(netip.MustParseAddr(address))
		require.NoError(t, err)
		require.Equal(t, want, local, address)
	}
}

// A user whom this user namespace does not know has the number of nobody, which is not this process's user.
func TestUnknownUserIsNotTrusted(t *testing.T) {
	was := overflowUID
	defer func() { overflowUID = was }()
	self := Owner{UID: os.Geteuid(), Inode: 1}
	require.True(t, self.Trusted())
	require.True(t, Owner{UID: 0, Inode: 1}.Trusted())
	require.False(t, Owner{UID: otherUser, Inode: 1}.Trusted())
	overflowUID = os.Geteuid
	require.False(t, self.Trusted())
}

func BenchmarkOwner(b *testing.B) {
	ours, _ := connected(b, "127.0.0.1:0", "127.0.0.1")
	c, err := EndsOf(descriptor(b, ours))
	require.NoError(b, err)
	var f Finder
	defer f.Close()
	for b.Loop() {
		if _, err := f.Owner(c); err != nil {
			b.Fatal(err)
		}
	}
}

// Where the kernel answers no questions about sockets, the tables tell, and a peer that is gone stays unknown.
func TestOwnerWithoutSockDiag(t *testing.T) {
	ours, theirs := connected(t, "127.0.0.1:0", "127.0.0.1")
	c, err := EndsOf(descriptor(t, ours))
	require.NoError(t, err)
	f := Finder{diag: netlink{fd: -1, isOpen: true}}
	owner, err := f.Owner(c)
	require.NoError(t, err)
	require.Equal(t, Owner{UID: os.Geteuid(), Inode: inode(t, theirs)}, owner)
	require.NoError(t, theirs.Close())
	_, err = f.Owner(c)
	require.ErrorIs(t, err, ErrUnknown)
	_, err = f.Local(netip.MustParseAddr("203.0.113.1"))
	require.NoError(t, err)
	f.Close()
	f.route = netlink{fd: -1, isOpen: true}
	_, err = f.Local(netip.MustParseAddr("203.0.113.1"))
	require.Error(t, err, "and nobody is taken for a peer on another host")
}
