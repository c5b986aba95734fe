package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// dialAs connects to a port of 127.0.0.1 as another user. The user of a socket is the file system user of the thread
// that creates it.
func dialAs(t *testing.T, uid, port int) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := unix.SetfsuidRetUid(uid)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	_, back := unix.SetfsuidRetUid(os.Geteuid())
	require.NoError(t, back)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	conn, err := net.FileConn(file)
	require.NoError(t, err)
	return conn
}

// A connection of another user to PMI_PORT or PMIx's port is closed before any data is read, whatever it claims. No
// server is created for it.
func TestMPIOfAnotherUser(t *testing.T) {
	testneeds.Root(t)
	m, pmi, pmix := fakeMPI(t)
	m.cfg.PMIPort = true
	m.open()
	m.acceptConnections()
	for range 2 {
		for _, port := range []int{portOf(m, "PMI"), portOf(m, "PMIx")} {
			conn := dialAs(t, 54321, port)
			_, _ = io.WriteString(conn, "hello\n")
			n, _ := conn.Read(make([]byte, 1))
			assert.Zero(t, n)
			require.NoError(t, conn.Close())
		}
	}
	for _, server := range []*fakeServer{pmi, pmix} {
		server.mu.Lock()
		assert.Empty(t, server.calls)
		server.mu.Unlock()
	}
	for _, port := range []int{portOf(m, "PMI"), portOf(m, "PMIx")} {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		require.NoError(t, err)
		says(t, conn, "-1")
		require.NoError(t, conn.Close())
	}
	m.close()
}
