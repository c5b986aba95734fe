package join

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"gorun/internal/printable"
	"gorun/internal/version"
)

// Config describes one node's part in a join. All nodes need the same Addr, Port, Ports, Secret, Self.ID and
// Self.NumNodes.
type Config struct {
	// Addr is the address or name of node 0, Port its TCP port.
	Addr string
	Port int
	// Ports are alternatives to Port: node 0 listens at the first free one, and nodes dial all of them. Nodes without a
	// rank use Port alone.
	Ports []int
	// Addrs are the addresses that node 0 may have, used instead of Addr, the most likely one first, each at Port. Then
	// Dial does not retry after node 0 has proved the token.
	Addrs []netip.Addr
	// NoRetry, once closed, stops Dial from trying again: node 0 may be gone.
	NoRetry <-chan struct{}
	// AssignRank gives a node that has proved the token its rank, or refuses it; here are those that have joined. It is
	// called with a lock held. Nil: nodes choose their ranks, or are numbered.
	AssignRank func(h *Hello, here []*Member) (nodeRank int, refusal string)
	// OnChange reports each node that joins, and with false each that leaves again. It is called with a lock held.
	OnChange func(nodeRank int, here bool)
	// Secret is the content of the nodes' token, 32 bytes; nil without a token.
	Secret []byte
	// Sealer distributes a secret to nodes without one, as long as it works; nil without such a service.
	Sealer Sealer
	// Insecure accepts nodes without a secret. Otherwise they must be processes of this user on this host, and Addr must
	// be a loopback address.
	Insecure bool
	// Rejoins says that this process has joined the job before, and warned of Insecure.
	Rejoins bool
	// NoSealer says why there is no Sealer where one was expected.
	NoSealer string
	// Self describes this node. An empty Version is this gorun's, an empty Host this host's name.
	Self Hello
	// NeverNode0 makes this node dial even if the address is its own.
	NeverNode0 bool
	// LastCall is how long node 0 waits for further nodes once Self.MinNodes are there.
	LastCall time.Duration
	// Timeout limits how long a node waits for node 0, and node 0 for the nodes that the job needs; 0 is DefaultTimeout.
	Timeout time.Duration
	// Notify receives a line for the user, without control bytes. It is called from any goroutine and should not block;
	// nil drops the lines.
	Notify func(text string)

	// RankPerNode says that each node is one rank; messages then count ranks.
	RankPerNode bool
	// AddrOption is the option that names Addr, for a message; "" is --master-addr.
	AddrOption string
	// HostsExist says that the host of node 0 is known to exist, as one of a resource manager's job. A name that does not
	// resolve then fails early.
	HostsExist bool

	lastJob  time.Duration // how long a started job may take to free the port; 0 is lastJobTimeout
	patience time.Duration // how long a peer may take to identify itself, and then to send its hello; 0 is stepTimeout
}

// DefaultTimeout is torchrun's.
const DefaultTimeout = 15 * time.Minute

// limit is the longest time until the job starts.
func (c *Config) limit() time.Duration {
	if c.Self.MinNodes > 0 {
		return c.Timeout + c.LastCall
	}
	return c.Timeout
}

// complete validates the configuration and fills in the defaults.
func (c Config) complete() (Config, error) {
	c.Self.Version = cmp.Or(c.Self.Version, version.String())
	if c.Self.Host == "" {
		c.Self.Host, _ = os.Hostname() // only shown in messages
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.patience, c.lastJob = cmp.Or(c.patience, stepTimeout), cmp.Or(c.lastJob, lastJobTimeout)
	notify := c.Notify
	c.Notify = func(text string) {
		if notify != nil {
			notify(printable.Text(printable.Short(text)))
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

// ports returns all ports that node 0 may have, the likeliest first.
func (c *Config) ports() []int { return append([]int{c.Port}, c.Ports...) }

func (c *Config) addrAt(port int) string { return net.JoinHostPort(c.Addr, strconv.Itoa(port)) }

// endpoint names node 0's address in messages.
func (c *Config) endpoint() string {
	if n := len(c.Ports); n > 0 {
		return fmt.Sprintf("%s (or another of %d ports)", c.addrAt(c.Port), n+1)
	}
	return c.addrAt(c.Port)
}
