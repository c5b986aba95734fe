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

// speakers reads what comes over a rank's socket, and knows which process wrote it: one
// that the rank started has inherited the socket.
type speakers struct {
	raw syscall.RawConn
	// control is room for a sender's credentials. There is none for descriptors, which
	// somebody might send: the kernel closes those that find no room.
	control [speakerRoom]byte
	pid     int // of the process that wrote what was read last; 0: not known
}

// speakerRoom is unix.CmsgSpace(unix.SizeofUcred).
const speakerRoom = 32

// newSpeakers begins to ask the kernel who writes. It does not know that of what was
// written before, which is a rank's first request at most: it waits for the answer. It gives
// nil for a connection that is no socket of this host's.
func newSpeakers(conn net.Conn) *speakers {
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
	return &speakers{raw: raw}
}

// Read never mixes what several processes wrote.
func (s *speakers) Read(b []byte) (int, error) {
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

// senderOf is the process that control data name; 0: none.
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

// runs reports whether a process is there and has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	return len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}
