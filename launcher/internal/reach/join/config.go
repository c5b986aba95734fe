package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gorun/internal/printable"
	"gorun/internal/version"
)

// Config is one node's part in a meeting. All nodes need the same Addr, Port, Ports,
// Secret and Self.ID and Self.NumNodes.
type Config struct {
	// Addr is the address or the name of node 0; Port its TCP port.
	Addr string
	Port int
	// Ports are others than Port: node 0 takes the first of all that is free, and nodes look at all of them. Whoever
	// else is at one, another job of gorun's too, is passed by. Nodes that do not know their rank have Port alone.
	Ports []int
	// Addrs are where node 0 may be in place of Addr, the most plausible first, each at Port. A node then comes once: what
	// goes wrong once node 0 has proved the token is not tried again.
	Addrs []netip.Addr
	// NoRetry, once closed, says that node 0 may be gone: a node does not try again then.
	NoRetry <-chan struct{}
	// AssignRank gives a node that has proved the token its rank, or refuses it; nil: nodes say their ranks, or are
	// numbered.
	AssignRank func(h *Hello) (nodeRank int, refusal string)
	// OnChange hears of each node that has come, and with false of one that went away again, under a lock of the head's.
	OnChange func(nodeRank int, here bool)
	// Secret is what the nodes' token holds, 32 bytes; nil where there is none.
	Secret []byte
	// Sealer gives nodes without a Secret one, as long as it answers; nil: nobody does.
	Sealer Sealer
	// Insecure takes nodes that have no secret. Without it they have to be processes of this
	// user on this host, and Addr has to be a loopback address.
	Insecure bool
	// NoSealer says why nobody vouches for this node, where somebody should.
	NoSealer string
	// Self is what this node says of itself. An empty Version is this gorun's, an
	// empty Host this host's.
	Self Hello
	// NeverNode0 says that this node only dials, even where the address is its own.
	NeverNode0 bool
	// Timeout bounds how long a node waits for node 0, and node 0 for the others;
	// 0 is DefaultTimeout.
	Timeout time.Duration
	// Notify gets a line for the user, of any goroutine, with no control byte in it;
	// it should not block. nil tells nobody.
	Notify func(text string)

	// RankPerNode says that each node is one rank, as messages then call it.
	RankPerNode bool
	// HostsExist says that node 0's host is there already, as those of a resource manager's job are:
	// its name, if no resolver knows it, is not waited for as long as Timeout.
	HostsExist bool

	lastJob time.Duration // how long a job that has started may take to make room; 0: startedWithin
	// how long a connection may take to show who it is, and then once more to say its hello; 0: firstWithin
	patience time.Duration
}

// DefaultTimeout is torchrun's.
const DefaultTimeout = 15 * time.Minute

// complete fills in what was left open.
func (c Config) complete() (Config, error) {
	c.Self.Version = cmp.Or(c.Self.Version, version.String())
	if c.Self.Host == "" {
		c.Self.Host, _ = os.Hostname() // "" is seen in messages, no more
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.patience, c.lastJob = cmp.Or(c.patience, firstWithin), cmp.Or(c.lastJob, startedWithin)
	tell := c.Notify
	c.Notify = func(text string) {
		if tell != nil {
			tell(printable.Text(printable.Short(text)))
		}
	}
	if err := c.Self.check(); err != nil {
		return c, fmt.Errorf("join: %w", err)
	}
	if c.Self.NodeRank >= c.Self.NumNodes {
		return c, fmt.Errorf("join: node rank %d, but the job has %d nodes: 0 to %d", c.Self.NodeRank, c.Self.NumNodes,
			c.Self.NumNodes-1)
	}
	for _, port := range c.ports() {
		if port < 0 || port > 65535 {
			return c, fmt.Errorf("join: port %d: ports are 0 to 65535", port)
		}
	}
	return c, nil
}

// ports are all ports at which node 0 may be, the likeliest first.
func (c *Config) ports() []int { return append([]int{c.Port}, c.Ports...) }

// at is node 0's address at one of them.
func (c *Config) at(port int) string { return net.JoinHostPort(c.Addr, strconv.Itoa(port)) }

// endpoint is node 0's address, as messages name it.
func (c *Config) endpoint() string {
	if n := len(c.Ports); n > 0 {
		return fmt.Sprintf("%s (or another of %d ports)", c.at(c.Port), n+1)
	}
	return c.at(c.Port)
}

// lookupLimit is how long a name server may take.
const lookupLimit = 5 * time.Second

// IsEndpointHere reports whether addr, a name or an IP address, is one of this host's.
// Loopback addresses are every host's own.
func IsEndpointHere(ctx context.Context, addr string) (bool, error) {
	found, err := lookup(ctx, addr)
	return slices.ContainsFunc(found, isHere), err
}

// lookup finds the addresses of a name.
func lookup(ctx context.Context, addr string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(addr); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	if addr == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", addr)
	if err != nil {
		return nil, fmt.Errorf("find the address of %s: %w", addr, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, nil
}

// isHere reports whether an interface has an address; that a socket can be bound to it says nothing where
// net.ipv4.ip_nonlocal_bind is set.
func isHere(ip netip.Addr) bool {
	all, _ := net.InterfaceAddrs()
	return ip.IsLoopback() || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip.WithZone("").AsSlice())
	})
}

// isLoopback reports whether addr, as it is written, means each host itself.
func isLoopback(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return addr == "localhost" || err == nil && ip.IsLoopback()
}

// listenHost is where node 0 listens: at an address of its own precisely there. A
// name, which may mean another address here than elsewhere (127.0.1.1, often), and an
// address that leads here by translation, as a service's does, are every address.
func listenHost(addr string) string {
	if addr == "localhost" {
		return "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(addr); err == nil && isHere(ip) {
		return ip.String()
	}
	return ""
}

// PortTakenError is that somebody else listens at node 0's port on this host, and at all
// of Ports where there are any.
type PortTakenError struct {
	Port  int
	Ports []int
	Err   error
}

func (e *PortTakenError) Error() string {
	if n := len(e.Ports); n > 0 {
		return fmt.Sprintf(
			"node 0 cannot listen: all %d ports of this job are taken, and --master-port names another; port %d is taken",
			n+1, e.Port)
	}
	return fmt.Sprintf("node 0 cannot listen: port %d is taken", e.Port)
}

// Unwrap returns the kernel's word.
func (e *PortTakenError) Unwrap() error { return e.Err }

// open listens at the first port that is free.
func open(ctx context.Context, c *Config) (*os.File, netip.AddrPort, error) {
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
