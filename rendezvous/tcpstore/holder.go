package tcpstore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Holder returns the process that listens at a TCP port of this host, as far as
// /proc tells: other users' descriptors are hidden from all but root.
func Holder(port int) (pid int, name string, ok bool) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // IPv6 may be off
		for _, inode := range holderInodes(text, port) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	if len(inodes) == 0 {
		return 0, "", false
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && holds(pid, inodes) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return pid, string(bytes.TrimSpace(comm)), true
		}
	}
	return 0, "", false
}

// holderInodes reads the sockets bound to a port, listening or not, out of a
// table of the kernel: "sl local_address rem_address st … inode".
func holderInodes(table []byte, port int) (inodes []string) {
	const local, remote, inode = 1, 2, 9
	want := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > inode && strings.HasSuffix(f[local], want) && strings.HasSuffix(f[remote], ":0000") {
			inodes = append(inodes, f[inode])
		}
	}
	return inodes
}

func holds(pid int, inodes map[string]bool) bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if target, err := os.Readlink(dir + fd.Name()); err == nil && inodes[target] {
			return true
		}
	}
	return false
}
