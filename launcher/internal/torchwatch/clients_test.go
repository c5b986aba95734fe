package torchwatch

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestClientsAreFoundByTheirSockets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()

	session, err := unix.Getsid(0)
	require.NoError(t, err)
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	clients := Clients([]int{session}, port)
	require.Equal(t, map[uint16]int{uint16(conn.LocalAddr().(*net.TCPAddr).Port): session}, clients)
	require.Empty(t, Clients([]int{session}, port+1))
}
