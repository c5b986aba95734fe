package ssh_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/remote/remotetest"
	"gorun/launcher/internal/reach/ssh"
)

// silentPort returns a port of this host that does not answer, as on a host that is down. The kernel drops SYN
// packets for a listener whose queue is full.
func silentPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	port := name.(*unix.SockaddrInet4).Port
	for { // until the queue is full
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 300*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// A host that does not accept a connection is reported after its own timeout, not after that of the whole login. The
// error lists the attempts.
func TestHostThatDoesNotAnswer(t *testing.T) {
	port := silentPort(t)
	config := func(host string, more string) string {
		path := filepath.Join(t.TempDir(), "config")
		text := fmt.Sprintf("Host node\nHostName %s\nPort %d\nUser ann\n%s\n", host, port, more)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	soon := ssh.Config{ConfigFile: config("127.0.0.1", ""), ConnectTimeout: 100 * time.Millisecond}
	where := fmt.Sprintf("ann@127.0.0.1:%d", port)
	require.Equal(t, where+" does not answer (waited 100ms)", refuse(t, soon, remote.StepConnect).Text)

	soon.ConfigFile = config("localhost", "AddressFamily inet")
	named := refuse(t, soon, remote.StepConnect)
	require.Equal(t, fmt.Sprintf("ann@localhost:%d (127.0.0.1) does not answer (waited 100ms)", port), named.Text)
	require.Equal(t, fmt.Sprintf("ann@localhost:%d (127.0.0.1)", port), named.Target)

	users := ssh.Config{ConfigFile: config("127.0.0.1", "ConnectTimeout 1"), ConnectTimeout: time.Nanosecond}
	require.Equal(t, where+" does not answer (waited 1s)", refuse(t, users, remote.StepConnect).Text)

	whole := ssh.Config{ConfigFile: config("127.0.0.1", ""), Timeout: 2 * time.Second}
	require.Equal(t, where+" does not answer (waited 2s)", refuse(t, whole, remote.StepConnect).Text)

	server, gate := remotetest.NewServer(t), remotetest.NewServer(t)
	far := ssh.Config{ConfigFile: jumpConfig(t, server, gate), ConnectTimeout: time.Second}
	text := refuseTarget(t, far, remote.Target{Name: "node", User: "ann", Port: port}, remote.StepConnect).Text
	require.Equal(t, where+" through jump host gate does not answer (waited 1s)", text)
}
