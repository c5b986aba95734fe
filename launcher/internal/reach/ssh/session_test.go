package ssh

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gorun/launcher/internal/reach/remote"
)

// stuckConn is a connection whose channels never open, as those of x/crypto after its end.
type stuckConn struct {
	ssh.Conn
	ended, opening, released chan struct{}
}

func (c stuckConn) Wait() error {
	<-c.ended
	return io.EOF
}

func (c stuckConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	close(c.opening)
	<-c.released
	return nil, nil, errors.New("released")
}

// A command does not start on a connection that has ended, nor on one that ends meanwhile.
func TestStartAfterTheEnd(t *testing.T) {
	conn := stuckConn{nil, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	defer close(conn.released)
	h := &host{name: "node", login: newLogin(&ssh.Client{Conn: conn}, nil, nil)}
	go func() {
		<-conn.opening
		close(conn.ended)
	}()
	for range 2 { // a second channel would panic
		_, err := h.Start(t.Context(), "exit 0")
		var failure *remote.Error
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "the connection is lost", failure.Text)
	}
}
