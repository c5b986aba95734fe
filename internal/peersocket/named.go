package peersocket

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// Named is a unix socket with an abstract name.
type Named struct {
	Name string // without the zero byte before it
	Owner
}

// The messages of sock_diag(7): struct unix_diag_req and struct unix_diag_msg.
const (
	unixRequest = 24 // bytes
	unixAnswer  = 16
	unixName    = 0    // UNIX_DIAG_NAME
	unixUID     = 7    // UNIX_DIAG_UID, since Linux 5.3
	showName    = 0x1  // UDIAG_SHOW_NAME
	showUID     = 0x40 // UDIAG_SHOW_UID
	tcpClose    = 7    // the state of a socket that neither listens nor is connected
)

// ListNamed lists the unix sockets of this network namespace that are bound to an abstract name with a prefix, and
// neither listen nor are connected. It omits sockets without a known owner, as before Linux 5.3.
func ListNamed(prefix string) (found []Named, err error) {
	request := make([]byte, unix.NLMSG_HDRLEN+unixRequest)
	body := request[unix.NLMSG_HDRLEN:]
	body[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpClose)
	binary.NativeEndian.PutUint32(body[12:], showName|showUID)
	err = list(request, func(body []byte) {
		if s, ok := parseUnix(body); ok && strings.HasPrefix(s.Name, prefix) {
			found = append(found, s)
		}
	})
	return found, err
}

// parseUnix parses one socket; ok is false without an abstract name or an owner.
func parseUnix(body []byte) (s Named, ok bool) {
	if len(body) < unixAnswer {
		return s, false
	}
	s.Inode, s.UID = uint64(binary.NativeEndian.Uint32(body[4:])), -1
	for kind, value := range attributes(body[unixAnswer:]) {
		switch {
		case kind == unixName && len(value) > 1 && value[0] == 0:
			s.Name = string(value[1:])
		case kind == unixUID && len(value) == 4:
			s.UID = int(binary.NativeEndian.Uint32(value))
		}
	}
	return s, s.Name != "" && s.UID >= 0
}
