package tcpstore

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// More clients than the limit connect at once and disconnect. The server keeps newly accepted clients while they
// send their greeting, so all are served in the end.
func TestClientsInACrowdAreServed(t *testing.T) {
	s := open(t, Config{Limits: Limits{Connections: 8}})
	failures := make(chan error, testneeds.Count(300, 3000))
	var group sync.WaitGroup
	for range cap(failures) {
		group.Go(func() { failures <- visit(s.Addr().String()) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err, s.log.text())
	}
	require.Eventually(t, func() bool { return s.Snapshot().Connections == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, s.Snapshot().Refused)
}

// visit is a client that connects for one operation.
func visit(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.Write(greeting); err != nil {
		return err
	}
	if _, err = conn.Write([]byte{opPing, 1, 2, 3, 4}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 4))
	return err
}
