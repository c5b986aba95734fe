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
	Local, Remote netip.AddrPort // IPv4 never in IPv6's notation
	State         int            // as the kernel numbers them: unix.BPF_TCP_LISTEN and the like
	Owner
}

// ReadTables lists the TCP sockets of the network namespace that a process is in; "self" is this one.
func ReadTables(process string) ([]Socket, error) {
	rows, err := os.ReadFile("/proc/" + process + "/net/tcp")
	if err != nil {
		return nil, err
	}
	rows6, _ := os.ReadFile("/proc/" + process + "/net/tcp6") // without IPv6 there is no other
	return append(ParseTable(string(rows)), ParseTable(string(rows6))...), nil
}

// ParseTable reads /proc/net/tcp or tcp6 (proc_net_tcp in the kernel's documentation), whose rows are
// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …". Sockets that no process has any more
// are left out: their users are made up.
func ParseTable(rows string) (sockets []Socket) {
	const local, remote, state, uid, inode = 1, 2, 3, 7, 9
	for row := range strings.Lines(rows) {
		words := strings.Fields(row)
		if len(words) <= inode {
			continue
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

// parseAddress reads an address such as 0100007F:3039, words of four bytes each in the order of this machine.
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

// inTables finds the socket that has these ends in /proc/net.
func inTables(c Ends) (Owner, error) {
	sockets, err := ReadTables("self")
	if err != nil {
		return Owner{}, fmt.Errorf("find the other end: %w", err)
	}
	return findSocket(sockets, c)
}

// findSocket finds the socket that has these ends.
func findSocket(sockets []Socket, c Ends) (Owner, error) {
	for _, s := range sockets {
		if s.Local == c.Local && s.Remote == c.Remote {
			return s.Owner, nil
		}
	}
	return Owner{}, ErrUnknown
}
