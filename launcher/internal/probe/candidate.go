package probe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"gorun/launcher/doctor"
)

// Kinds of interfaces, most likely reachable from other hosts first.
const (
	Ordinary  = "ordinary"   // hardware, a bond or bridge on top of it, or a container's own
	NoCarrier = "no carrier" // up, but without a link partner
	Tunnel    = "tunnel"     // VPNs and point-to-point links
	HostOnly  = "host-only"  // docker0, virbr0 and the like: the same addresses on many hosts
	Loopback  = "loopback"
)

var kinds = []string{Ordinary, NoCarrier, Tunnel, HostOnly, Loopback}

// Candidate is an address of a node that other nodes may reach.
type Candidate struct {
	Addr      netip.Addr // without a zone, also if it is link-local
	Bits      int        // prefix length of its network
	Interface string
	Kind      string
	Mbps      int  // link speed, 0 if unknown
	MTU       int  // in bytes
	Device    bool // the interface is hardware or is built on hardware, so Mbps is real
	Named     bool // the user named this address
	Temporary bool // an IPv6 privacy address, or a deprecated one
}

// String returns the address and its interface: "10.0.0.1 (eth0)".
func (c Candidate) String() string {
	if c.Interface == "" {
		return c.Addr.String()
	}
	return c.Addr.String() + " (" + c.Interface + ")"
}

// zoned returns the address as a program on the candidate's node needs it.
func (c Candidate) zoned() netip.Addr {
	if needsZone(c.Addr) {
		return c.Addr.WithZone(c.Interface)
	}
	return c.Addr
}

// global reports whether the address is neither link-local nor a loopback.
func (c Candidate) global() bool { return c.Kind != Loopback && !c.Addr.IsLinkLocalUnicast() }

// needsZone reports whether an address is ambiguous without an interface.
func needsZone(addr netip.Addr) bool { return addr.Is6() && addr.IsLinkLocalUnicast() }

// comparePlausibility orders the candidates that other nodes more likely reach first.
func comparePlausibility(a, b Candidate, preferIPv6 bool) int {
	return cmp.Or(
		trueFirst(a.Named, b.Named),
		cmp.Compare(a.tier(), b.tier()),
		trueFirst(a.Addr.Is4() != preferIPv6, b.Addr.Is4() != preferIPv6),
		trueFirst(!a.Temporary, !b.Temporary),
	)
}

// tier ranks a candidate by its kind, most plausible first. Link-local addresses rank with the loopback.
func (c Candidate) tier() int {
	if c.Addr.IsLinkLocalUnicast() {
		return len(kinds) - 1
	}
	return max(0, slices.Index(kinds, c.Kind))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Sort orders the candidates of one node, most plausible first. The sort is stable.
func Sort(all []Candidate, preferIPv6 bool) {
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(comparePlausibility(a, b, preferIPv6), cmp.Compare(b.Mbps, a.Mbps))
	})
}

// tunnelNames are name prefixes of tunnels.
var tunnelNames = []string{
	"tun", "tap", "wg", "tailscale", "zt", "CloudflareWARP", "gre", "sit", "ip6tnl", "ipip", "ppp", "nordlynx", "utun",
	"netbird", "nebula", "vpn",
}

// facts describes an interface as the kernel sees it.
type facts struct {
	name         string
	loopback     bool
	pointToPoint bool
	running      bool
	hardware     bool // it is a device or is built on one
	bridge       bool
	tunnel       bool // by its type
}

// kind classifies an interface. Hardware outweighs a name: br-lan with a network card in it leads to other hosts.
func (f facts) kind() string {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(f.name, prefix) }
	switch {
	case f.loopback:
		return Loopback
	case f.hardware && f.running:
		return Ordinary
	case !f.hardware && (doctor.HostOnly(f.name) || f.bridge):
		return HostOnly
	case f.tunnel, f.pointToPoint, slices.ContainsFunc(tunnelNames, hasPrefix):
		return Tunnel
	case !f.running:
		return NoCarrier
	}
	return Ordinary
}
