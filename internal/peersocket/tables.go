package peersocket

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Socket is a TCP socket of a network namespace that some process has open.
type Socket struct {
	Local, Remote netip.AddrPort // IPv4 addresses are never in IPv6 form
	State         int            // the kernel's number, such as unix.BPF_TCP_LISTEN
	Owner
}

// ReadTables lists the TCP sockets in the network namespace of a process, given by its id or "self".
func ReadTables(process string) ([]Socket, error) {
	rows, err := os.ReadFile("/proc/" + process + "/net/tcp")
	if err != nil {
		return nil, err
	}
	rows6, _ := os.ReadFile("/proc/" + process + "/net/tcp6") // missing without IPv6
	return append(ParseTable(string(rows)), ParseTable(string(rows6))...), nil
}

// ParseTable reads /proc/net/tcp or tcp6 (proc_net_tcp in the kernel's documentation), whose rows are
// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …". It omits sockets without a
// process, whose user is not the real one.
func ParseTable(rows string) (sockets []Socket) {
	const local, remote, state, uid, inode = 1, 2, 3, 7, 9
	for row := range strings.Lines(rows) {
		words := strings.Fields(row)
		if len(words) <= inode || words[inode] == "0" {
			continue // before its addresses are parsed: there may be ten thousand
		}
		from, err1 := parseAddress(words[local])
		to, err2 := parseAddress(words[remote])
		now, err3 := strconv.ParseUint(words[state], 16, 8)
		user, err4 := strconv.Atoi(words[uid])
		number, err5 := strconv.ParseUint(words[inode], 10, 64)
		if cmp.Or(err1, err2, err3, err4, err5) == nil && number != 0 {
			sockets = append(sockets, Socket{from, to, int(now), Owner{user, number}})
		}
	}
	return sockets
}

// parseAddress parses an address such as 0100007F:3039, in words of four bytes in native byte order.
func parseAddress(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	raw, err2 := hex.DecodeString(host)
	if err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	address, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}

// findInTables finds the owner of a socket in /proc/net.
func findInTables(c Ends) (Owner, error) {
	sockets, err := ReadTables("self")
	if err != nil {
		return Owner{}, fmt.Errorf("find the other end: %w", err)
	}
	return findSocket(sockets, c)
}

func findSocket(sockets []Socket, c Ends) (Owner, error) {
	for _, s := range sockets {
		if s.Local == c.Local && s.Remote == c.Remote {
			return s.Owner, nil
		}
	}
	return Owner{}, ErrUnknown
}
