package peersocket

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answerSize is larger than any answer.
const answerSize = 4096

// netlink is a socket of one protocol of netlink(7). The kernel answers a request while it is sent.
type netlink struct {
	fd     int
	isOpen bool
	seq    uint32
}

func (n *netlink) open(protocol int) error {
	if n.isOpen {
		return nil
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	// receive from the kernel only
	if err = unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("connect a netlink socket: %w", err)
	}
	n.fd, n.isOpen = fd, true
	return nil
}

func (n *netlink) close() {
	if n.isOpen {
		unix.Close(n.fd)
		n.isOpen = false
	}
}

// send fills in the header of a request and sends it.
func (n *netlink) send(kind, flags uint16, request []byte) error {
	n.seq++
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], kind)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|flags)
	binary.NativeEndian.PutUint32(request[8:], n.seq)
	if _, err := unix.Write(n.fd, request); err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	return nil
}

// query sends a request and returns the body of the answer.
func (n *netlink) query(kind uint16, request, into []byte) ([]byte, error) {
	if err := n.send(kind, 0, request); err != nil {
		return nil, err
	}
	for {
		// raw, as the answer is there already
		size, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(n.fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
		if errno != 0 {
			return nil, fmt.Errorf("read the kernel's answer: %w", errno)
		}
		if body, ours, err := parseAnswer(into[:size], n.seq); ours {
			return body, err
		}
	}
}

// list sends a request for sockets and calls use for the body of each.
func list(request []byte, use func(body []byte)) error {
	var n netlink
	defer n.close()
	if err := n.open(unix.NETLINK_SOCK_DIAG); err != nil {
		return err
	}
	if err := n.send(sockDiagByFamily, unix.NLM_F_DUMP, request); err != nil {
		return err
	}
	into := make([]byte, 64<<10) // the kernel sends half of that at once
	for {
		size, err := unix.Read(n.fd, into)
		if err != nil {
			return fmt.Errorf("read the kernel's list of sockets: %w", err)
		}
		if last, err := parseList(into[:size], use); last || err != nil {
			return err
		}
	}
}

// parseList parses a part of the kernel's list.
func parseList(part []byte, use func(body []byte)) (last bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(part)
	if err != nil {
		return false, fmt.Errorf("read the kernel's list of sockets: %w", err)
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			return false, fmt.Errorf("the kernel does not list sockets: %w", parseError(m.Data))
		}
		use(m.Data)
	}
	return false, nil
}

// attributes yields the kinds and values of attributes, up to a broken one.
func attributes(list []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for len(list) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(list))
			if size < unix.SizeofRtAttr || size > len(list) ||
				!yield(binary.NativeEndian.Uint16(list[2:]), list[unix.SizeofRtAttr:size]) {
				return
			}
			list = list[min((size+3)&^3, len(list)):] // they are padded
		}
	}
}

// sockDiagInfo is INET_DIAG_INFO, the attribute with struct tcp_info.
const sockDiagInfo = 2

// listTCP calls use for the TCP sockets of this network namespace in some states, with the attributes of extensions.
// IPv4 and IPv6 are asked for one after the other.
func listTCP(states uint32, extensions byte, use func(body []byte)) error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, unix.NLMSG_HDRLEN+diagRequest)
		b := request[unix.NLMSG_HDRLEN:]
		b[0], b[1], b[2] = family, unix.IPPROTO_TCP, extensions
		binary.NativeEndian.PutUint32(b[4:], states)
		err := list(request, func(body []byte) {
			if len(body) >= diagAnswer {
				use(body)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Listeners lists the TCP sockets of this network namespace that listen. Without netlink it lists all sockets, which
// takes milliseconds: the kernel looks through its table of connections, which is large on a large machine.
func Listeners() (found []Socket, err error) {
	err = listTCP(1<<unix.BPF_TCP_LISTEN, 0, func(body []byte) {
		s := Socket{State: unix.BPF_TCP_LISTEN, Owner: ownerIn(body)}
		id := body[answerID:]
		address := netip.AddrFrom16([16]byte(id[4:]))
		if body[0] == unix.AF_INET {
			address = netip.AddrFrom4([4]byte(id[4:]))
		}
		s.Local = netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(id))
		found = append(found, s)
	})
	if err != nil {
		return ReadTables("self")
	}
	return found, nil
}

// Traffic counts the bytes that the TCP sockets of this network namespace have received, and sent with success, by
// inode. Ends that lie on this host count twice.
func Traffic() (map[uint64]int64, error) {
	bytes := map[uint64]int64{}
	const states = ^uint32(1<<unix.BPF_TCP_TIME_WAIT | 1<<unix.BPF_TCP_LISTEN)
	err := listTCP(states, 1<<(sockDiagInfo-1), func(body []byte) {
		bytes[ownerIn(body).Inode] += parseTraffic(body[diagAnswer:])
	})
	if err != nil {
		return nil, err
	}
	return bytes, nil
}

// parseTraffic finds the numbers in attributes of struct inet_diag_msg; kernels before 4.1 do not have them.
func parseTraffic(list []byte) int64 {
	for kind, value := range attributes(list) {
		if kind == sockDiagInfo {
			var info unix.TCPInfo
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)), value)
			return int64(info.Bytes_acked + info.Bytes_received)
		}
	}
	return 0
}

// parseAnswer parses the answer to a request; ours is false for a late answer to an earlier one.
func parseAnswer(message []byte, seq uint32) (body []byte, ours bool, err error) {
	const header = unix.NLMSG_HDRLEN
	if len(message) < header {
		return nil, true, fmt.Errorf("the kernel answered %d bytes", len(message))
	}
	if binary.NativeEndian.Uint32(message[8:]) != seq {
		return nil, false, nil
	}
	size := int(binary.NativeEndian.Uint32(message))
	if size < header || size > len(message) {
		return nil, true, fmt.Errorf("the kernel announced %d bytes and sent %d", size, len(message))
	}
	body = message[header:size]
	if binary.NativeEndian.Uint16(message[4:]) != unix.NLMSG_ERROR {
		return body, true, nil
	}
	return nil, true, parseError(body)
}

func parseError(body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("the kernel answered an error of %d bytes", len(body))
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
}

// The messages of sock_diag(7): struct inet_diag_req_v2 and struct inet_diag_msg.
const (
	sockDiagByFamily = 20
	diagID           = 8  // where struct inet_diag_sockid begins in the request
	diagRequest      = 56 // bytes
	answerID         = 4
	answerUID        = 64
	answerInode      = 68
	diagAnswer       = 72
	idSize           = 40 // of the identity: ports and addresses
)

// query finds the owner of the socket with exactly these ends. Its cost does not depend on the number of sockets.
func (f *Finder) query(c Ends) (Owner, error) {
	if err := f.diag.open(unix.NETLINK_SOCK_DIAG); err != nil {
		return Owner{}, err
	}
	var request [unix.NLMSG_HDRLEN + diagRequest]byte
	putDiag(request[unix.NLMSG_HDRLEN:], c)
	body, err := f.diag.query(sockDiagByFamily, request[:], f.buffer[:])
	if err == unix.ENOENT {
		return Owner{}, ErrUnknown
	}
	if err != nil {
		return Owner{}, err
	}
	owner, err := parseDiag(body, request[unix.NLMSG_HDRLEN+diagID:][:idSize])
	f.works = f.works || err == nil
	return owner, err
}

func family(address netip.Addr) byte {
	if address.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// putDiag writes a request for one socket. It finds IPv6 sockets with IPv4 addresses as IPv4 ones.
func putDiag(b []byte, c Ends) {
	b[0] = family(c.Local.Addr())
	b[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0)) // in any state
	id := b[diagID:]
	binary.BigEndian.PutUint16(id[0:], c.Local.Port())
	binary.BigEndian.PutUint16(id[2:], c.Remote.Port())
	copy(id[4:20], c.Local.Addr().AsSlice())
	copy(id[20:36], c.Remote.Addr().AsSlice())
	binary.NativeEndian.PutUint32(id[36:], c.Device)
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // INET_DIAG_NOCOOKIE
}

// parseDiag parses the owner of the socket that was found. It rejects a listening socket at the port, which the kernel
// returns if nothing matches, and a socket without a process, which has inode 0 and belongs to root.
func parseDiag(body, id []byte) (Owner, error) {
	const addresses = 36 // bytes of ports and addresses in the identity
	if len(body) < diagAnswer {
		return Owner{}, fmt.Errorf("the kernel answered %d bytes about a socket", len(body))
	}
	owner, found := ownerIn(body), body[answerID:][:addresses]
	if owner.Inode == 0 || !sameEnds(found, id[:addresses]) {
		return Owner{}, ErrUnknown
	}
	return owner, nil
}

func ownerIn(body []byte) Owner {
	return Owner{
		UID:   int(binary.NativeEndian.Uint32(body[answerUID:])),
		Inode: uint64(binary.NativeEndian.Uint32(body[answerInode:])),
	}
}

// sameEnds compares ports and addresses; the kernel returns IPv4 addresses of IPv6 sockets in either form.
func sameEnds(found, wanted []byte) bool {
	return string(found[:4]) == string(wanted[:4]) && sameAddress(found[4:20], wanted[4:20]) &&
		sameAddress(found[20:36], wanted[20:36])
}

func sameAddress(found, wanted []byte) bool {
	if string(found) == string(wanted) {
		return true
	}
	return netip.AddrFrom16([16]byte(found)).Unmap() == netip.AddrFrom4([4]byte(wanted[:4])) &&
		string(wanted[4:]) == string(make([]byte, 12))
}

// Local reports whether an address belongs to this host, in this network namespace.
func (f *Finder) Local(address netip.Addr) (bool, error) {
	if address = address.Unmap(); address.IsLoopback() {
		return true, nil
	}
	if err := f.route.open(unix.NETLINK_ROUTE); err != nil {
		return false, err
	}
	text := address.WithZone("").AsSlice()
	const header, attribute = unix.NLMSG_HDRLEN + unix.SizeofRtMsg, unix.SizeofRtAttr
	request := make([]byte, header+attribute+len(text))
	request[unix.NLMSG_HDRLEN] = family(address)
	request[unix.NLMSG_HDRLEN+1] = uint8(8 * len(text)) // bits of the destination
	binary.NativeEndian.PutUint16(request[header:], uint16(attribute+len(text)))
	binary.NativeEndian.PutUint16(request[header+2:], unix.RTA_DST)
	copy(request[header+attribute:], text)
	body, err := f.route.query(unix.RTM_GETROUTE, request, f.buffer[:])
	switch {
	case err == unix.ENETUNREACH || err == unix.EHOSTUNREACH || err == unix.EACCES || err == unix.EINVAL:
		return false, nil // there is no route, or a blackhole
	case err != nil:
		return false, err
	case len(body) < unix.SizeofRtMsg:
		return false, fmt.Errorf("the kernel answered %d bytes about a route", len(body))
	}
	const kind = 7 // rtm_type
	return body[kind] == unix.RTN_LOCAL, nil
}
