package tcpstore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
)

// Holder returns a process that listens on a TCP port of this host, in this network namespace, and its name. ok is
// false if none exists, or if another user's process listens and this process is not root.
func Holder(port int) (pid int, name string, ok bool) {
	sockets := listening(port)
	if len(sockets) == 0 {
		return 0, "", false
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, "", false
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1)
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry); err == nil && holds(entry, sockets) {
			return pid, processName(entry), true
		}
	}
	return 0, "", false
}

// listening returns the sockets that listen on a port, as /proc names them.
func listening(port int) map[string]bool {
	links := map[string]bool{}
	sockets, _ := peersocket.Listeners()
	for _, s := range sockets {
		if s.State == unix.BPF_TCP_LISTEN && int(s.Local.Port()) == port {
			links[fmt.Sprintf("socket:[%d]", s.Inode)] = true
		}
	}
	return links
}

// holds reports whether a process has one of the sockets open.
func holds(pid string, sockets map[string]bool) bool {
	folder := "/proc/" + pid + "/fd"
	dir, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer dir.Close()
	open, _ := dir.Readdirnames(-1)
	for _, fd := range open {
		if target, err := os.Readlink(folder + "/" + fd); err == nil && sockets[target] {
			return true
		}
	}
	return false
}

// processName returns a process's name. The process chooses it, so that unprintable characters are replaced.
func processName(pid string) string {
	comm, _ := os.ReadFile("/proc/" + pid + "/comm") // "" if it has exited
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(bytes.TrimSuffix(comm, []byte("\n"))))
}
