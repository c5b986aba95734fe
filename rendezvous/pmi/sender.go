package pmi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// senderReader reads from a rank's socket and knows which process wrote: children of the rank inherit the socket.
type senderReader struct {
	raw syscall.RawConn
	// control has room for credentials only: the kernel closes descriptors that do not fit.
	control [credentialsSpace]byte
	pid     int // of the process that wrote what was read last; 0 if unknown
}

// credentialsSpace is unix.CmsgSpace(unix.SizeofUcred).
const credentialsSpace = 32

// newSenderReader has the kernel pass on who writes. It does not for what was written before, which is at most the
// first request, since the rank waits for the reply. nil is returned unless conn is a local socket.
func newSenderReader(conn net.Conn) *senderReader {
	local, ok := conn.(syscall.Conn)
	if _, tcp := conn.(*net.TCPConn); tcp || !ok {
		return nil
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return nil
	}
	if raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}) != nil || err != nil {
		return nil
	}
	return &senderReader{raw: raw}
}

// Read returns what one process wrote.
func (s *senderReader) Read(b []byte) (int, error) {
	var n, size int
	var failed error
	err := s.raw.Read(func(fd uintptr) (done bool) {
		n, size, _, _, failed = unix.Recvmsg(int(fd), b, s.control[:], unix.MSG_CMSG_CLOEXEC)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, fmt.Errorf("read from a rank's socket: %w", failed)
	case n == 0:
		return 0, io.EOF
	}
	s.pid = senderOf(s.control[:size])
	return n, nil
}

// senderOf returns the process in the control data, 0 if none exists.
func senderOf(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return 0
	}
	credentials, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0
	}
	return int(credentials.Pid)
}

// isRunning reports whether a process exists and has not exited.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}
