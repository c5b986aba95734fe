package torchwatch

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// procOf returns the path of a process's file in /proc.
func procOf(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// inSessions returns the given processes that exist and all processes of the sessions that they lead, sorted.
func inSessions(leaders []int) []int {
	var pids []int
	for _, name := range namesIn("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if slices.Contains(leaders, pid) || slices.Contains(leaders, sessionOf(pid)) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// sessionOf returns the session of a process, 0 if it is gone.
func sessionOf(pid int) int {
	sid, err := unix.Getsid(pid)
	if err != nil {
		return 0
	}
	return sid
}

func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // fewer if the process ends meanwhile
	return names
}

// mapsTorch reports whether a process has loaded PyTorch's library.
func mapsTorch(pid int) bool {
	maps, err := os.ReadFile(procOf(pid, "maps"))
	if err != nil {
		return false
	}
	return bytes.Contains(maps, []byte("/libtorch_cpu.so")) || bytes.Contains(maps, []byte("/libtorch.so"))
}

// hostsStore reports whether a process serves a TCPStore, by the name of a thread.
func hostsStore(pid int) bool {
	for _, thread := range namesIn(procOf(pid, "task")) {
		name, err := os.ReadFile(procOf(pid, "task/"+thread+"/comm"))
		if err == nil && bytes.HasPrefix(name, []byte("pt_tcpstore")) {
			return true
		}
	}
	return false
}

// socket is a socket that a process holds.
type socket struct {
	fd    string
	inode uint64
}

// socketsOf lists the sockets that a process holds.
func socketsOf(pid int) []socket {
	var sockets []socket
	for _, fd := range namesIn(procOf(pid, "fd")) {
		if inode, ok := socketInode(pid, fd); ok {
			sockets = append(sockets, socket{fd, inode})
		}
	}
	return sockets
}

// socketInode returns the inode of a descriptor that is a socket.
func socketInode(pid int, fd string) (uint64, bool) {
	link, err := os.Readlink(procOf(pid, "fd/"+fd))
	number, isSocket := strings.CutPrefix(link, "socket:[")
	if err != nil || !isSocket {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, err == nil
}

// isUnconnectedTCP reports whether s is still a TCP socket of p, although it is not in the table of connections.
func (p process) isUnconnectedTCP(s socket) bool {
	var protocol [16]byte
	n, err := unix.Getxattr(procOf(p.pid, "fd/"+s.fd), "system.sockprotoname", protocol[:])
	if err != nil || !bytes.HasPrefix(protocol[:n], []byte("TCP")) {
		return false
	}
	inode, ok := socketInode(p.pid, s.fd)
	return ok && inode == s.inode
}

// table maps the inodes of sockets to the connections of a network namespace.
type table map[uint64]peersocket.Socket

// tableCache has a table per network namespace.
type tableCache map[string]table

// of returns the table of a process's namespace.
func (c tableCache) of(pid int) table {
	namespace, err := os.Readlink(procOf(pid, "ns/net"))
	if t, ok := c[namespace]; ok && err == nil {
		return t
	}
	sockets, _ := peersocket.ReadTables(strconv.Itoa(pid))
	c[namespace] = tableOf(sockets)
	return c[namespace]
}

func tableOf(sockets []peersocket.Socket) table {
	t := table{}
	for _, s := range sockets {
		t[s.Inode] = s
	}
	return t
}
