package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
)

func ethernetChecks() []Check {
	return []Check{
		{
			"mtu", "ethernet",
			"whether the interfaces of one network have the same MTU on all hosts",
			"Long packets to the host with the small MTU are lost: short messages pass, and the first long one hangs.",
			func(c *Cluster) []Finding {
				mtu := func(i Interface) int { return i.MTU }
				return c.networks(mtu, func(i Interface, own, most int, others string) []Finding {
					return warning(fmt.Sprintf("%s has an MTU of %d, on %s %d", i.Name, own, others, most), i.file("mtu"),
						fmt.Sprintf("sudo ip link set %s mtu %d", shellwords.Quote(i.Name), most))
				})
			},
		},
		{
			"speed", "ethernet",
			"whether the interfaces of one network have the same speed on all hosts",
			"A bad cable makes 1 Gb/s of 10: all ranks wait for that host.",
			func(c *Cluster) []Finding {
				mbps := func(i Interface) int { return i.Mbps }
				return c.networks(mbps, func(i Interface, own, most int, others string) []Finding {
					return warningIf(own < most, fmt.Sprintf("%s runs at %d Mb/s, on %s %d", i.Name, own, others, most),
						i.file("speed"), i.ethtool())
				})
			},
		},
		{
			"duplex", "ethernet",
			"interfaces that cannot send and receive at once",
			"Half duplex is what is left where negotiation failed; it is slow and loses packets.",
			wires(func(_ *Host, i Interface) []Finding {
				if !i.Carrier || i.Duplex != "half" {
					return nil
				}
				return warning(i.Name+" is half duplex", i.file("duplex"), i.ethtool())
			}),
		},
		{
			"drops", "ethernet",
			"interfaces that receive packets with errors, or lose them",
			"TCP slows down at every packet that is lost: one in a thousand halves the bandwidth.",
			wires(func(_ *Host, i Interface) []Finding {
				const enough = 100_000 // packets from which on a share says something
				bad := i.Errors + i.Dropped
				if i.Packets < enough || bad*1000 < i.Packets {
					return nil
				}
				return warning(fmt.Sprintf("%s has lost %.1f %% of its packets", i.Name,
					100*float64(bad)/float64(i.Packets+bad)), fmt.Sprintf("%s: %d errors and %d missed of %d packets",
					i.file("statistics"), i.Errors, i.Dropped, i.Packets),
					"ethtool -S "+shellwords.Quote(i.Name)+" | grep -Ei 'err|drop|miss'")
			}),
		},
		{
			"carrier", "ethernet",
			"interfaces with an address whose cable is not connected",
			"Others may be told that address, and wait for an answer.",
			wires(func(h *Host, i Interface) []Finding {
				if !i.Up || i.Carrier || len(usable(i)) == 0 || h.Portable {
					return nil
				}
				return warning(i.Name+" has an address and no carrier", i.file("carrier")+" is 0, "+i.Prefixes[0],
					"sudo ip link set "+shellwords.Quote(i.Name)+" down")
			}),
		},
	}
}

func (i Interface) file(name string) string { return "/sys/class/net/" + i.Name + "/" + name }

func (i Interface) ethtool() string { return "ethtool " + shellwords.Quote(i.Name) }

// wires runs a check over the interfaces of each host that are wires.
func wires(run func(h *Host, i Interface) []Finding) func(*Cluster) []Finding {
	return each(func(h *Host) (all []Finding) {
		for _, i := range physical(h) {
			all = append(all, run(h, i)...)
		}
		return all
	})
}

// physical are the interfaces that are wires.
func physical(h *Host) []Interface {
	return slices.DeleteFunc(slices.Clone(h.Interfaces), func(i Interface) bool { return !i.Physical || i.Wireless })
}

// usable are the networks of an interface that other hosts can be on.
func usable(i Interface) (networks []netip.Prefix) {
	for _, text := range i.Prefixes {
		p, err := netip.ParsePrefix(text)
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() && p.Bits() < p.Addr().BitLen() {
			networks = append(networks, p.Masked())
		}
	}
	return networks
}

// networks compares interfaces that are on one network, over the hosts; 0 is not known. What
// containers and virtual machines have for themselves is the same network on every host, and none.
func (c *Cluster) networks(property func(Interface) int,
	tell func(i Interface, own, most int, others string) []Finding,
) (all []Finding) {
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
				return i.Carrier && !bridged(i.Name) && slices.Contains(usable(i), network)
			})
			if at >= 0 {
				i = h.Interfaces[at]
			}
			return i
		}
		all = append(all, c.differing(func(h *Host) string {
			if n := property(on(h)); n > 0 {
				return strconv.Itoa(n)
			}
			return ""
		}, func(h *Host, own, most, others string) []Finding {
			n, _ := strconv.Atoi(own)
			usual, _ := strconv.Atoi(most)
			return tell(on(h), n, usual, others)
		})...)
	}
	return all
}

// bridged reports whether an interface's name is that of a network within the host.
func bridged(name string) bool {
	return slices.ContainsFunc([]string{"docker", "virbr", "br-", "cni", "lxdbr", "lxcbr", "podman", "flannel", "veth"},
		func(p string) bool { return strings.HasPrefix(name, p) })
}
