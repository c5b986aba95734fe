package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"gorun/internal/shellwords"
)

func ethernetChecks() []Check {
	return []Check{
		{
			ID: "mtu", Group: "ethernet",
			What: "whether the interfaces of one network have the same MTU on all hosts",
			Why:  "Long packets to the host with the small MTU are lost: short messages pass, and the first long one hangs.",
			Run: func(c *Cluster) []Finding {
				return c.networks(func(i Interface) string {
					return number(i.MTU)
				}, func(i Interface, own, most string, others int) Finding {
					return Finding{
						Severity: Warning, Text: fmt.Sprintf("%s has an MTU of %s, %s %s", i.Name, own, onTheOthers(others), most),
						Evidence: "/sys/class/net/" + i.Name + "/mtu",
						Fix:      fmt.Sprintf("sudo ip link set %s mtu %s", shellwords.Quote(i.Name), most),
					}
				})
			},
		},
		{
			ID: "speed", Group: "ethernet",
			What: "whether the interfaces of one network have the same speed on all hosts",
			Why:  "A bad cable makes 1 Gb/s of 10: all ranks wait for that host.",
			Run: func(c *Cluster) []Finding {
				return c.networks(func(i Interface) string {
					return number(i.Mbps)
				}, func(i Interface, own, most string, others int) Finding {
					f := Finding{
						Severity: Note, Text: fmt.Sprintf("%s runs at %s Mb/s, %s %s", i.Name, own, onTheOthers(others), most),
						Evidence: "/sys/class/net/" + i.Name + "/speed",
						Fix:      "ethtool " + shellwords.Quote(i.Name),
					}
					a, _ := strconv.Atoi(own)
					if b, _ := strconv.Atoi(most); a < b {
						f.Severity = Warning
					}
					return f
				})
			},
		},
		{
			ID: "duplex", Group: "ethernet",
			What: "interfaces that cannot send and receive at once",
			Why:  "Half duplex is what is left where negotiation failed; it is slow and loses packets.",
			Run: each(func(h *Host) (all []Finding) {
				for _, i := range physical(h) {
					if i.Carrier && i.Duplex == "half" {
						all = append(all, Finding{Severity: Warning, Text: i.Name + " is half duplex", Evidence: "/sys/class/net/" +
							i.Name + "/duplex", Fix: "ethtool " + shellwords.Quote(i.Name)})
					}
				}
				return all
			}),
		},
		{
			ID: "drops", Group: "ethernet",
			What: "interfaces that receive packets with errors, or lose them",
			Why:  "TCP slows down at every packet that is lost: one in a thousand halves the bandwidth.",
			Run:  each(drops),
		},
		{
			ID: "carrier", Group: "ethernet",
			What: "interfaces with an address whose cable is not connected",
			Why:  "Others may be told that address, and wait for an answer.",
			Run: each(func(h *Host) (all []Finding) {
				for _, i := range physical(h) {
					if i.Up && !i.Carrier && len(usable(i)) > 0 && !h.Portable {
						all = append(all, Finding{
							Severity: Warning, Text: i.Name + " has an address and no carrier", Evidence: "/sys/class/net/" + i.Name +
								"/carrier is 0, " + i.Prefixes[0], Fix: "sudo ip link set " + shellwords.Quote(i.Name) + " down",
						})
					}
				}
				return all
			}),
		},
	}
}

// physical are the interfaces that are wires.
func physical(h *Host) []Interface {
	return slices.DeleteFunc(slices.Clone(h.Interfaces), func(i Interface) bool { return !i.Physical || i.Wireless })
}

// number is "" for nothing known.
func number(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
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

// networks compares interfaces that are on one network, over the hosts. What containers
// and virtual machines have for themselves is the same network on every host, and none.
func (c *Cluster) networks(property func(Interface) string,
	tell func(i Interface, own, most string, others int) Finding,
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
		on := func(h *Host) (Interface, bool) {
			for _, i := range h.Interfaces {
				if i.Carrier && !bridged(i.Name) && slices.Contains(usable(i), network) {
					return i, true
				}
			}
			return Interface{}, false
		}
		all = append(all, c.differing(func(h *Host) string {
			if i, ok := on(h); ok {
				return property(i)
			}
			return ""
		}, func(h *Host, own, most string, others int) Finding {
			i, _ := on(h)
			return tell(i, own, most, others)
		})...)
	}
	return all
}

// bridged reports whether an interface's name is that of a network within the host.
func bridged(name string) bool {
	return slices.ContainsFunc([]string{"docker", "virbr", "br-", "cni", "lxdbr", "lxcbr", "podman", "flannel", "veth"},
		func(p string) bool {
			return len(name) >= len(p) && name[:len(p)] == p
		})
}

func drops(h *Host) (all []Finding) {
	const enough = 100_000 // packets from which on a share says something
	for _, i := range physical(h) {
		if i.Packets < enough {
			continue
		}
		bad := i.Errors + i.Dropped
		if bad*1000 < i.Packets {
			continue
		}
		all = append(all, Finding{
			Severity: Warning, Text: fmt.Sprintf("%s has lost %.1f %% of its packets", i.Name,
				100*float64(bad)/float64(i.Packets+bad)),
			Evidence: fmt.Sprintf("/sys/class/net/%s/statistics: %d errors and %d missed of %d packets", i.Name, i.Errors,
				i.Dropped, i.Packets), Fix: "ethtool -S " + shellwords.Quote(i.Name) + " | grep -Ei 'err|drop|miss'",
		})
	}
	return all
}
