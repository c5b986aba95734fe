package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/probe"
)

// IsEndpointHere reports whether addr, a name or an IP address, belongs to this host. Loopback addresses belong to
// every host.
func IsEndpointHere(ctx context.Context, addr string) (bool, error) {
	found, err := probe.Lookup(ctx, addr)
	return slices.ContainsFunc(found, isHere), err
}

// isHere reports whether an interface has the address. Binding a socket to it would prove nothing where
// net.ipv4.ip_nonlocal_bind is set.
func isHere(ip netip.Addr) bool {
	return ip.IsLoopback() || probe.LocalAddresses()[ip.Unmap().WithZone("")]
}

// isLoopback reports whether addr, as written, is a loopback address.
func isLoopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return addr == "localhost" || err == nil && ip.IsLoopback()
}

// listenHost returns the host to bind: an address of this host itself. Names (which may resolve to 127.0.1.1 here) and
// addresses that are translated to this host, such as a Kubernetes service's, bind all interfaces.
func listenHost(addr string) string {
	if addr == "localhost" {
		return "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(addr); err == nil && isHere(ip) {
		return ip.String()
	}
	return ""
}

// PortTakenError reports that another process on this host listens at node 0's port, and at each of Ports.
type PortTakenError struct {
	Port  int
	Ports []int
	Err   error
}

func (e *PortTakenError) Error() string {
	if n := len(e.Ports); n > 0 {
		return fmt.Sprintf(
			"node 0 cannot listen: all %d ports of this job are taken (port %d, for one); choose a free one with --master-port",
			n+1, e.Port)
	}
	return fmt.Sprintf("node 0 cannot listen: port %d is taken", e.Port)
}

// Unwrap returns the error of bind(2).
func (e *PortTakenError) Unwrap() error { return e.Err }

// listen listens at the first free port.
func listen(ctx context.Context, c *Config) (*os.File, netip.AddrPort, error) {
	host := listenHost(c.Addr)
	var (
		l   net.Listener
		err error
	)
	for _, port := range c.ports() {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, netip.AddrPort{}, &PortTakenError{Port: c.Port, Ports: c.Ports, Err: err}
	}
	if err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("node 0 cannot listen at %s: %w", c.endpoint(), err)
	}
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	socket, err := l.(*net.TCPListener).File()
	return socket, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), err
}
