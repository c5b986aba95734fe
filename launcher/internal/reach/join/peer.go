package join

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"gorun/internal/peersocket"
)

// otherUserError is that somebody else has the other end of a connection.
type otherUserError struct{ uid int }

func (e *otherUserError) Error() string {
	return fmt.Sprintf("the other end of the connection belongs to uid %d", e.uid)
}

// checkOwn returns an error unless the other end of a connection belongs to a process of this
// user on this host.
func checkOwn(c net.Conn) error {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return peersocket.ErrUnknown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var (
		ends   peersocket.Ends
		failed error
	)
	if err := raw.Control(func(fd uintptr) { ends, failed = peersocket.EndsOf(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	var finder peersocket.Finder
	defer finder.Close()
	owner, err := finder.Owner(ends)
	if err == nil && owner.UID != os.Geteuid() {
		err = &otherUserError{owner.UID}
	}
	return err
}
