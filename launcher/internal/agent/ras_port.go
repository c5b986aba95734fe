package agent

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RAS ports of jobs are below the ephemeral ports, so that no connection takes one by chance before NCCL starts.
const (
	firstRASPort          = 20_000
	defaultFirstEphemeral = 32_768
)

// rasPort returns a free port of the loopback interface; 0: a few tries found none. The job's other nodes use the same
// without a check: NCCL goes on if it is taken.
func rasPort() int {
	ports := firstEphemeralPort() - firstRASPort
	if ports <= 0 {
		return 0
	}
	const tries = 8
	for range tries {
		port := firstRASPort + rand.IntN(ports) // #nosec G404 -- the port is no secret
		if isFree(port) {
			return port
		}
	}
	return 0
}

// isFree reports whether a port of 127.0.0.1 can be bound. net.Listen would cost a start 0.1 ms.
func isFree(port int) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}) == nil
}

// firstEphemeralPort returns the lowest port that the kernel assigns to connections.
func firstEphemeralPort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultFirstEphemeral
	}
	first, _, _ := strings.Cut(string(text), "\t")
	port, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return defaultFirstEphemeral
	}
	return port
}
