package peersocket

import (
	"encoding/binary"
	"errors"
	"fmt"
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
func ListNamed(prefix string) ([]Named, error) {
	var n netlink
	if err := n.open(unix.NETLINK_SOCK_DIAG); err != nil {
		return nil, err
	}
	defer n.close()
	request := make([]byte, unix.NLMSG_HDRLEN+unixRequest)
	body := request[unix.NLMSG_HDRLEN:]
	body[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpClose)
	binary.NativeEndian.PutUint32(body[12:], showName|showUID)
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if _, err := unix.Write(n.fd, request); err != nil {
		return nil, fmt.Errorf("ask for unix sockets: %w", err)
	}
	into := make([]byte, 64<<10)
	var found []Named
	for {
		size, err := unix.Read(n.fd, into)
		if err != nil {
			return nil, fmt.Errorf("read the list of unix sockets: %w", err)
		}
		more, last, err := parseNamed(into[:size], prefix)
		if found = append(found, more...); err != nil || last {
			return found, err
		}
	}
}

// parseNamed parses one part of the kernel's list.
func parseNamed(part []byte, prefix string) (found []Named, last bool, err error) {
	for len(part) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(part))
		if size < unix.NLMSG_HDRLEN || size > len(part) {
			break
		}
		body := part[unix.NLMSG_HDRLEN:size]
		switch binary.NativeEndian.Uint16(part[4:]) {
		case unix.NLMSG_DONE:
			return found, true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return nil, true, errBrokenList
			}
			return nil, true, fmt.Errorf("list unix sockets: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
		}
		if s, ok := parseUnix(body); ok && strings.HasPrefix(s.Name, prefix) {
			found = append(found, s)
		}
		part = part[min(align(size), len(part)):]
	}
	if len(part) > 0 {
		return nil, true, errBrokenList
	}
	return found, false, nil
}

var errBrokenList = errors.New("list unix sockets: the kernel's answer cannot be read")

// parseUnix parses one socket; ok is false without an abstract name or an owner.
func parseUnix(body []byte) (s Named, ok bool) {
	if len(body) < unixAnswer {
		return s, false
	}
	s.Inode, s.UID = uint64(binary.NativeEndian.Uint32(body[4:])), -1
	for body = body[unixAnswer:]; len(body) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(body))
		if size < unix.SizeofRtAttr || size > len(body) {
			return s, false
		}
		value := body[unix.SizeofRtAttr:size]
		switch binary.NativeEndian.Uint16(body[2:]) {
		case unixName:
			if len(value) > 1 && value[0] == 0 {
				s.Name = string(value[1:])
			}
		case unixUID:
			if len(value) == 4 {
				s.UID = int(binary.NativeEndian.Uint32(value))
			}
		}
		body = body[min(align(size), len(body)):]
	}
	return s, s.Name != "" && s.UID >= 0
}

// align adds the padding to a length.
func align(n int) int { return (n + 3) &^ 3 }
