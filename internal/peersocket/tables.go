package peersocket

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// inTables finds the socket that has these ends in /proc/net.
func inTables(c Ends) (Owner, error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		rows, err := os.ReadFile(table)
		if err != nil && table == "/proc/net/tcp" { // without IPv6 there is no other
			return Owner{}, fmt.Errorf("find the other end: %w", err)
		}
		if owner, ok := findSocket(string(rows), c); ok {
			return owner, nil
		}
	}
	return Owner{}, ErrUnknown
}

// findSocket looks for a socket among the rows of /proc/net/tcp or tcp6 (proc_net_tcp in the kernel's documentation):
// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …".
func findSocket(rows string, c Ends) (Owner, bool) {
	const local, remote, uid, inode = 1, 2, 7, 9
	for row := range strings.Lines(rows) {
		words := strings.Fields(row)
		if len(words) <= inode || !isAddress(words[local], c.Local) || !isAddress(words[remote], c.Remote) {
			continue
		}
		user, err := strconv.Atoi(words[uid])
		number, err2 := strconv.ParseUint(words[inode], 10, 64)
		if err == nil && err2 == nil && number != 0 { // 0: no process has it any more, and the user is made up
			return Owner{UID: user, Inode: number}, true
		}
	}
	return Owner{}, false
}

// isAddress compares an address such as 0100007F:3039, words of four bytes each in the order of this machine.
func isAddress(text string, at netip.AddrPort) bool {
	host, port, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || uint16(n) != at.Port() || len(host)%8 != 0 {
		return false
	}
	var bytes []byte
	for ; host != ""; host = host[8:] {
		word, err := strconv.ParseUint(host[:8], 16, 32)
		if err != nil {
			return false
		}
		bytes = binary.NativeEndian.AppendUint32(bytes, uint32(word))
	}
	found, ok := netip.AddrFromSlice(bytes)
	return ok && found.Unmap() == at.Addr()
}
