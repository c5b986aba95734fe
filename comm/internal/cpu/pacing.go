package cpu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// BBR has no more under way than arrived in the shortest round trip, and paces it with timers. Between near hosts, a
// round trip is mostly the peer's computation. Connections therefore start with reno, which needs no privilege, and
// return to BBR if their hosts are far away. A connection that started with BBR would be paced for ever.

// farRoundTrip is the round trip in microseconds from which hosts count as far away.
const farRoundTrip = 1000

// hostPacer returns the host's congestion control, "" unless that is BBR.
func hostPacer() string {
	name, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if !strings.HasPrefix(string(name), "bbr") {
		return ""
	}
	return strings.TrimSpace(string(name))
}

func setCongestion(fd uintptr, name string) {
	_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) // the host's remains
}

// unpace is the Control function of listeners and dialers.
func (w *wire) unpace(_, _ string, conn syscall.RawConn) error {
	if w.pacer == "" {
		return nil
	}
	return conn.Control(func(fd uintptr) { setCongestion(fd, "reno") })
}

// settleCongestion returns a connection to the host's congestion control if its round trip is long.
func (w *wire) settleCongestion(fd uintptr) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if w.pacer != "" && err == nil && info.Min_rtt >= farRoundTrip {
		setCongestion(fd, w.pacer)
	}
}

// descriptor duplicates the connection's file descriptor, outside the control of the Go runtime.
func (w *wire) descriptor(conn net.Conn) (fd int, err error) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(own uintptr) {
		w.settleCongestion(own)
		fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, failed); err != nil {
		return -1, fmt.Errorf("another descriptor for a connection: %w", err)
	}
	return fd, nil
}
