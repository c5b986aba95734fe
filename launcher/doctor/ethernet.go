package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

func ethernetChecks() []Check {
	return []Check{
		{
			"mtu", "ethernet",
			"whether the interfaces of one network have the same MTU on all hosts",
			"The network loses long packets to the host with the small MTU: short messages pass, and the first long one hangs.",
			func(c *Cluster, r report) {
				mtu := func(i Interface) int { return i.MTU }
				c.networks(r, mtu, func(i Interface, r report, own, most int, others string) {
					r.warn(fmt.Sprintf("%s has an MTU of %d, on %s %d", i.Name, own, others, most), i.file("mtu"),
						fmt.Sprintf("sudo ip link set %s mtu %d", shellwords.Quote(i.Name), most))
				})
			},
		},
		{
			"speed", "ethernet",
			"whether the interfaces of one network have the same speed on all hosts",
			"A bad cable turns 10 Gb/s into 1 Gb/s: all ranks wait for that host.",
			func(c *Cluster, r report) {
				mbps := func(i Interface) int { return i.Mbps }
				c.networks(r, mbps, func(i Interface, r report, own, most int, others string) {
					r.warnIf(own < most, fmt.Sprintf("%s runs at %d Mb/s, on %s %d", i.Name, own, others, most),
						i.file("speed"), i.ethtool())
				})
			},
		},
		{
			"duplex", "ethernet",
			"interfaces that cannot send and receive at once",
			"Half duplex follows failed negotiation; it is slow and loses packets.",
			eachInterface(func(_ *Host, i Interface, r report) {
				if i.Carrier && i.Duplex == "half" {
					r.warn(i.Name+" is half duplex", i.file("duplex"), i.ethtool())
				}
			}),
		},
		{
			"drops", "ethernet",
			"interfaces that receive packets with errors, or lose them",
			"TCP slows down at every lost packet: one in a thousand halves the bandwidth.",
			eachInterface(func(_ *Host, i Interface, r report) {
				const enough = 100_000 // packets for a meaningful share
				bad := i.Errors + i.Dropped
				if i.Packets < enough || bad*1000 < i.Packets {
					return
				}
				r.warn(fmt.Sprintf("%s has lost %.1f %% of its packets", i.Name,
					100*float64(bad)/float64(i.Packets+bad)), fmt.Sprintf("%s: %d errors and %d missed of %d packets",
					i.file("statistics"), i.Errors, i.Dropped, i.Packets),
					"ethtool -S "+shellwords.Quote(i.Name)+" | grep -Ei 'err|drop|miss'")
			}),
		},
		{
			"carrier", "ethernet",
			"interfaces with an address whose cable is not connected",
			"Other hosts may try that address and wait for an answer.",
			eachInterface(func(h *Host, i Interface, r report) {
				if i.Up && !i.Carrier && len(usable(i)) > 0 && !h.Portable {
					r.warn(i.Name+" has an address and no carrier", i.file("carrier")+" is 0, "+i.Prefixes[0],
						"sudo ip link set "+shellwords.Quote(i.Name)+" down")
				}
			}),
		},
	}
}

func (i Interface) file(name string) string { return "/sys/class/net/" + i.Name + "/" + name }

func (i Interface) ethtool() string { return "ethtool " + shellwords.Quote(i.Name) }

// eachInterface makes a check of a function that checks one physical interface.
func eachInterface(check func(h *Host, i Interface, r report)) func(*Cluster, report) {
	return each(func(h *Host, r report) {
		for _, i := range physical(h) {
			check(h, i, r)
		}
	})
}

// physical returns the wired hardware interfaces.
func physical(h *Host) []Interface {
	return slices.DeleteFunc(slices.Clone(h.Interfaces), func(i Interface) bool { return !i.Physical || i.Wireless })
}

// usable returns the networks of an interface that other hosts can be in.
func usable(i Interface) (networks []netip.Prefix) {
	for _, text := range i.Prefixes {
		p, err := netip.ParsePrefix(text)
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() && p.Bits() < p.Addr().BitLen() {
			networks = append(networks, p.Masked())
		}
	}
	return networks
}

// networks compares the interfaces in one network over the hosts, like differing; 0 is unknown. It ignores networks for
// containers and virtual machines, which have the same prefix on every host but do not connect them.
func (c *Cluster) networks(r report, property func(Interface) int,
	add func(i Interface, r report, own, most int, others string),
) {
	var order []netip.Prefix
	for _, h := range c.Hosts {
		for _, i := range h.Interfaces {
			for _, p := range usable(i) {
				if i.Carrier && !slices.Contains(order, p) {
					order = append(order, p)
				}
			}
		}
	}
	for _, network := range order {
		on := func(h *Host) (i Interface) {
			at := slices.IndexFunc(h.Interfaces, func(i Interface) bool {
				return i.Carrier && !HostOnly(i.Name) && slices.Contains(usable(i), network)
			})
			if at >= 0 {
				i = h.Interfaces[at]
			}
			return i
		}
		differing(c, r, func(h *Host) int { return property(on(h)) },
			func(h *Host, r report, own, most int, others string) { add(on(h), r, own, most, others) })
	}
}

// hostOnlyNames are name prefixes of interfaces to containers and virtual machines on the same host.
var hostOnlyNames = []string{
	"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "cilium", "lxc", "lxdbr", "incusbr", "vxlan", "geneve",
	"kube-", "nodelocaldns", "podman", "ovs-", "vmnet", "vboxnet", "vnet", "dummy", "ifb", "weave", "xenbr", "waydroid",
	"antrea",
}

// HostOnly reports whether an interface belongs to a network within the host, by its name.
func HostOnly(name string) bool {
	return slices.ContainsFunc(hostOnlyNames, func(p string) bool { return strings.HasPrefix(name, p) })
}
