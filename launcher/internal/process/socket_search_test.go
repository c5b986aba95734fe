package process

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connected returns both ends of a connection.
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

// A socket may be open in a process, in one of its descendants, or in neither.
func TestHoldsSocket(t *testing.T) {
	_, theirs := connected(t)
	file, err := theirs.(*net.TCPConn).File()
	require.NoError(t, err)
	link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Fd()))
	require.NoError(t, err)
	var inode uint64
	_, err = fmt.Sscanf(link, "socket:[%d]", &inode)
	require.NoError(t, err)

	// A shell without the socket has a descendant that holds it.
	cmd := exec.Command("sh", "-c", "setsid sh -c 'echo; read x; :' <&4 & exec 3<&-; wait")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
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

	sockets := map[uint64]int64{inode: 4711, inode + 1<<40: 1}
	session := cmd.Process.Pid
	loads, err := Loads([]int{session}, sockets, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 4711, loads[session].TCP, "a descendant has it in a session of its own")
	assert.Equal(t, map[uint64]int64{inode + 1<<40: 1}, sockets)
	require.NoError(t, signal.Close())
	require.NoError(t, wait.Close())
	require.NoError(t, cmd.Wait())
	require.NoError(t, file.Close())
}
