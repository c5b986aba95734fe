package agent

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// Ports at which NCCL's processes of a job may be asked what they do. They lie below those
// that the kernel gives to connections: nobody gets one by chance between now and when
// the first rank has NCCL start.
const (
	firstRASPort = 20_000
	usualDynamic = 32_768 // where the kernel's own ports begin
)

// rasPort is a port of the loopback that nobody listens at, 0 where a few tries found
// none. Other nodes of the job use the same one, untried: NCCL goes on without where it
// is taken.
func rasPort() int {
	ports := firstDynamicPort() - firstRASPort
	if ports <= 0 {
		return 0
	}
	const tries = 8
	for range tries {
		port := firstRASPort + rand.IntN(ports) // #nosec G404 -- the port is no secret
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	return 0
}

// firstDynamicPort is where the ports begin that the kernel gives to connections.
func firstDynamicPort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usualDynamic
	}
	first, _, _ := strings.Cut(string(text), "\t")
	port, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return usualDynamic
	}
	return port
}
