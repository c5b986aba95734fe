package join

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"gorun/internal/peersocket"
)

// otherUserError reports that another user owns the other end of a connection.
type otherUserError struct{ uid int }

func (e *otherUserError) Error() string {
	return fmt.Sprintf("the peer belongs to user %d", e.uid)
}

// checkOwner returns an error unless a process of this user on this host owns the other end of the connection.
func checkOwner(c net.Conn) error {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return peersocket.ErrUnknown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var (
		ends    peersocket.Ends
		endsErr error
	)
	if err := raw.Control(func(fd uintptr) { ends, endsErr = peersocket.EndsOf(int(fd)) }); err != nil {
		return err
	}
	if endsErr != nil {
		return endsErr
	}
	var finder peersocket.Finder
	defer finder.Close()
	owner, err := finder.Owner(ends)
	if err == nil && owner.UID != os.Geteuid() {
		err = &otherUserError{owner.UID}
	}
	return err
}
