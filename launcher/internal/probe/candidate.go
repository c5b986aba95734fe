package probe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Kinds of interfaces, by how likely it is that other hosts reach their addresses.
const (
	Ordinary  = "ordinary"   // hardware, what is bonded or bridged above it, a container's own
	NoCarrier = "no carrier" // up, but nothing is at the other end
	Tunnel    = "tunnel"     // VPNs, point-to-point
	HostOnly  = "host-only"  // docker0, virbr0 and the like: the same addresses on many hosts
	Loopback  = "loopback"
)

var plausible = []string{Ordinary, NoCarrier, Tunnel, HostOnly, Loopback}

// Candidate is an address of a node that others may reach.
type Candidate struct {
	Addr      netip.Addr // IPv6 link-local ones without a zone
	Bits      int        // the length of its network's prefix
	Interface string
	Kind      string
	Mbps      int  // of the link, 0: not known
	MTU       int  // in bytes
	Device    bool // it is hardware, or made of some: Mbps is true then
	Named     bool // the user named it
	// Temporary says that the address is there for a while only: an IPv6 privacy
	// address, or one that is going away.
	Temporary bool
}

// String is the address with its interface, for messages.
func (c Candidate) String() string {
	if c.Interface == "" {
		return c.Addr.String()
	}
	return c.Addr.String() + " (" + c.Interface + ")"
}

// plausibility orders candidates by how plausible it is that others reach them. IPv6
// before IPv4 where the nodes were named so.
func plausibility(a, b Candidate, preferIPv6 bool) int {
	return cmp.Or(
		first(a.Named, b.Named),
		cmp.Compare(a.tier(), b.tier()),
		first(a.Addr.Is4() != preferIPv6, b.Addr.Is4() != preferIPv6),
		first(!a.Temporary, !b.Temporary),
	)
}

// tier is smaller for more plausible kinds; addresses of the link alone are as bad as
// the loopback.
func (c Candidate) tier() int {
	if c.Addr.IsLinkLocalUnicast() {
		return len(plausible) - 1
	}
	if i := slices.Index(plausible, c.Kind); i >= 0 {
		return i
	}
	return 0
}

// first orders what has a property before what has not.
func first(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// Sort orders the candidates of one node, the most plausible first; those that are
// alike stay in their order.
func Sort(all []Candidate, preferIPv6 bool) {
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(plausibility(a, b, preferIPv6), cmp.Compare(b.Mbps, a.Mbps))
	})
}

// Beginnings of the names of interfaces that lead to containers and virtual machines
// of the same host, and of those that lead through tunnels.
var (
	hostOnlyNames = []string{
		"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "cilium", "lxc", "lxdbr", "incusbr", "vxlan", "geneve",
		"kube-",
		"nodelocaldns", "podman", "ovs-", "vmnet", "vboxnet", "vnet", "dummy", "ifb", "weave", "xenbr", "waydroid", "antrea",
	}
	tunnelNames = []string{
		"tun", "tap", "wg", "tailscale", "zt", "CloudflareWARP", "gre", "sit", "ip6tnl", "ipip",
		"ppp", "nordlynx", "utun", "netbird", "nebula", "vpn",
	}
)

// facts are what the kernel tells of an interface.
type facts struct {
	name         string
	loopback     bool
	pointToPoint bool
	running      bool
	hardware     bool // it, or what it is made of, is a device
	bridge       bool
	tunnel       bool // by its type
}

// kind tells what an interface is for. Hardware below counts more than a name:
// br-lan with a network card in it leads to other hosts.
func (f facts) kind() string {
	begins := func(names []string) bool {
		return slices.ContainsFunc(names, func(p string) bool { return strings.HasPrefix(f.name, p) })
	}
	switch {
	case f.loopback:
		return Loopback
	case f.hardware && f.running:
		return Ordinary
	case !f.hardware && (begins(hostOnlyNames) || f.bridge):
		return HostOnly
	case f.tunnel, f.pointToPoint, begins(tunnelNames):
		return Tunnel
	case !f.running:
		return NoCarrier
	}
	return Ordinary
}
