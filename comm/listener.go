package comm

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// checkStore refuses a store on this host that another user serves, who took the port before rank 0 came. On other
// hosts nobody can tell.
func checkStore(conn net.Conn) error {
	server, local := conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()
	if server.Addr().Unmap() != local.Addr().Unmap() && !server.Addr().IsLoopback() {
		return nil
	}
	known := false
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		file, err := os.Open(table)
		if os.IsNotExist(err) { // no IPv6
			continue
		}
		if err != nil {
			return err
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			uid, found := listenerIn(lines.Text(), server)
			if found && uid != 0 && uid != os.Geteuid() {
				return fmt.Errorf("the port of the store, %v, is taken by user %d: "+
					"set MASTER_PORT to a port that is free", server, uid)
			}
			known = known || found
		}
	}
	if !known {
		return fmt.Errorf("the port of the store, %v, answers, and no process that this one sees listens there: "+
			"set MASTER_PORT to a port that is free", server)
	}
	return nil
}

// listenerIn reads a line of /proc/net/tcp or tcp6: whose the listener at the address is, if the line is about it.
func listenerIn(line string, server netip.AddrPort) (uid int, found bool) {
	const local, state, owner, listen = 1, 3, 7, "0A" // TCP_LISTEN
	fields := strings.Fields(line)
	if len(fields) <= owner || fields[state] != listen {
		return 0, false
	}
	address, port, _ := strings.Cut(fields[local], ":")
	number, err := strconv.ParseUint(port, 16, 16)
	ip, ok := addressInTable(address)
	if err != nil || !ok || uint16(number) != server.Port() || !ip.IsUnspecified() && ip != server.Addr().Unmap() {
		return 0, false
	}
	uid, err = strconv.Atoi(fields[owner])
	return uid, err == nil
}

// addressInTable reads an address as the kernel prints it: words of 32 bits in the order of bytes of this machine.
func addressInTable(text string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return netip.Addr{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	address, ok := netip.AddrFromSlice(raw)
	return address.Unmap(), ok
}
