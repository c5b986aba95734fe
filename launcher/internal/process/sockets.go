package process

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Socket is one end of a TCP connection as the kernel knows it.
type Socket struct {
	// UID is the user who made it.
	UID int
	// Inode is by what descriptors of processes are known to be it.
	Inode uint64
}

// PeerSocket finds the other end of a TCP connection within this host and network namespace.
// An end that was closed is none any more.
func PeerSocket(conn net.Conn) (Socket, error) {
	peer, err := addressOf(conn.RemoteAddr())
	if err != nil {
		return Socket{}, err
	}
	own, err := addressOf(conn.LocalAddr())
	if err != nil {
		return Socket{}, err
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		rows, err := os.ReadFile(table)
		if err != nil && table == "/proc/net/tcp" { // without IPv6 there is no other
			return Socket{}, err
		}
		if s, ok := findSocket(string(rows), peer, own); ok {
			return s, nil
		}
	}
	return Socket{}, fmt.Errorf("no process of this host has a connection from %s to %s", peer, own)
}

func addressOf(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is no address of TCP", a)
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// findSocket looks for an end among the rows of /proc/net/tcp or tcp6 (proc_net_tcp in the
// kernel's documentation): "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout
// inode …".
func findSocket(rows string, local, remote netip.AddrPort) (Socket, bool) {
	const wantsLocal, wantsRemote, uid, inode = 1, 2, 7, 9
	for row := range strings.Lines(rows) {
		words := strings.Fields(row)
		if len(words) <= inode || !isAddress(words[wantsLocal], local) || !isAddress(words[wantsRemote], remote) {
			continue
		}
		user, err := strconv.Atoi(words[uid])
		number, err2 := strconv.ParseUint(words[inode], 10, 64)
		if err == nil && err2 == nil && number != 0 { // 0: no process has it any more, and the user is made up
			return Socket{UID: user, Inode: number}, true
		}
	}
	return Socket{}, false
}

// isAddress compares an address such as 0100007F:3039, words of four bytes each in the order
// of this machine.
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

// HoldsSocket reports whether a process, one of its session or one that descends from it has
// a socket open. sure is false where some of them could not be looked into and none of the
// others has it.
func HoldsSocket(pid int, inode uint64) (holds, sure bool) {
	s := socketSearch{link: "socket:[" + strconv.FormatUint(inode, 10) + "]", sure: true, seen: map[int]bool{}}
	if s.below(pid) {
		return true, true
	}
	members, err := Members([]int{pid})
	if err != nil {
		s.sure = false
	}
	for _, p := range members[pid] {
		if s.below(p.PID) {
			return true, true
		}
	}
	return false, s.sure
}

type socketSearch struct {
	link string
	sure bool
	seen map[int]bool
}

// below looks into a process, and then into those that descend from it.
func (s *socketSearch) below(pid int) bool {
	for left := []int{pid}; len(left) > 0; {
		pid, left = left[0], left[1:]
		if s.seen[pid] {
			continue
		}
		s.seen[pid] = true
		if s.has(pid) {
			return true
		}
		left = append(left, s.children(pid)...)
	}
	return false
}

func (s *socketSearch) has(pid int) bool {
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	for _, name := range s.names(folder) {
		if target, err := os.Readlink(folder + name); err == nil && target == s.link {
			return true
		}
	}
	return false
}

// Children are the processes that one has started and that are there, as far as the kernel tells.
func Children(pid int) []int { return (&socketSearch{}).children(pid) }

// HasVariable reports whether a process was started with NAME=VALUE in its environment.
func HasVariable(pid int, entry string) bool {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	name, value, _ := strings.Cut(entry, "=")
	has, ok := variableIn(environ, name)
	return ok && has == value
}

// children are those that the threads of a process have started.
func (s *socketSearch) children(pid int) (pids []int) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task/"
	for _, thread := range s.names(folder) {
		text, err := os.ReadFile(folder + thread + "/children") // needs CONFIG_PROC_CHILDREN
		if _, gone := os.Stat(folder + thread); err != nil && gone == nil {
			s.sure = false
		}
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// names are those in a folder of a process's; none where that is gone.
func (s *socketSearch) names(folder string) []string {
	dir, err := os.Open(folder)
	if err != nil {
		s.sure = s.sure && os.IsNotExist(err)
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}
