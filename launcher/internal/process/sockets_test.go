package process

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// connected are both ends of a connection.
func connected(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	theirs, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	ours, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

func TestPeerSocket(t *testing.T) {
	ours, theirs := connected(t)
	end, err := PeerSocket(ours)
	require.NoError(t, err)
	assert.Equal(t, os.Geteuid(), end.UID)
	other, err := PeerSocket(theirs)
	require.NoError(t, err)
	assert.NotEqual(t, end.Inode, other.Inode)
	holds, _ := HoldsSocket(os.Getpid(), end.Inode)
	assert.True(t, holds)

	client, server := net.Pipe()
	_, err = PeerSocket(client)
	require.Error(t, err)
	require.NoError(t, server.Close())
	require.NoError(t, theirs.Close())
	_, err = PeerSocket(ours)
	assert.ErrorContains(t, err, "no process of this host has a connection from 127.0.0.1:")
}

// Rows as kernels on machines of little endian write them: of a socket of IPv6 that talks to 127.0.0.1, too.
func TestFindSocket(t *testing.T) {
	const rows = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 20 4 30 10 -1
   1: 0100007F:A000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000   507        0 112 1 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:A001 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000   508        0 113 1 0
   3: 0100007F:A002 0100007F:1F90 06 00000000:00000000 03:00001774 00000000     0        0 0 3 0000000000000000
   4: 0100007F:A003 zz
   5: 0100007Fx:A003 0100007F:1F90 01 0 0 0 1 0 114
`
	to := netip.MustParseAddrPort("127.0.0.1:8080")
	for port, want := range map[uint16]Socket{0xA000: {507, 112}, 0xA001: {508, 113}, 0xA002: {}, 0xA003: {}} {
		s, ok := findSocket(rows, netip.AddrPortFrom(to.Addr(), port), to)
		assert.Equal(t, want, s, "%x", port)
		assert.Equal(t, want.Inode != 0, ok)
	}
}

// A socket may be open in a process, in what that has started, or in nothing of either.
func TestHoldsSocket(t *testing.T) {
	_, theirs := connected(t)
	file, err := theirs.(*net.TCPConn).File()
	require.NoError(t, err)
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Fd()))
	require.NoError(t, err)
	var inode uint64
	_, err = fmt.Sscanf(link, "socket:[%d]", &inode)
	require.NoError(t, err)

	// A shell that has it not, below which sits one that has.
	cmd := exec.Command("sh", "-c", "sh -c 'echo; read x; :' <&4 & exec 3<&-; wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	wait, signal, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{file, wait}
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	holds, _ := HoldsSocket(cmd.Process.Pid, inode)
	assert.True(t, holds, "its child has it")
	holds, _ = HoldsSocket(cmd.Process.Pid, inode+1<<40)
	assert.False(t, holds)
	require.NoError(t, signal.Close())
	require.NoError(t, wait.Close())
	require.NoError(t, cmd.Wait())
	require.NoError(t, file.Close())
}
