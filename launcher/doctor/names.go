package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

func nameChecks() []Check {
	return []Check{
		{
			"hostname", "names",
			"whether the host's own name has an address that other hosts can use",
			"Gloo and MPI libraries send others the address of their own name. Debian's /etc/hosts has 127.0.1.1, " +
				"which every host uses for itself.",
			hostname,
		},
		{
			"reverse-name", "names",
			"whether the address of the host's name has that name",
			"Otherwise programs that compare names (getfqdn) do not recognize their own host.",
			each(func(h *Host, r report) {
				n := h.Names
				if n == nil || len(n.Reverse) == 0 || slices.ContainsFunc(n.Reverse, func(name string) bool {
					return sameHost(name, h.Hostname)
				}) {
					return
				}
				address := firstUsable(n.Addresses)
				r.note(fmt.Sprintf("its address is called %s, it calls itself %s", n.Reverse[0], h.Hostname),
					"the resolver, for "+address, "getent hosts "+address)
			}),
		},
	}
}

// sameHost compares names without their domains.
func sameHost(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return strings.EqualFold(a, b)
}

// firstUsable returns the first address that other hosts may reach, or "".
func firstUsable(addresses []string) string {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() && !a.IsUnspecified() {
			return text
		}
	}
	return ""
}

func hostname(c *Cluster, r report) {
	several := c.machines() > 1 // a single host reaches itself
	each(func(h *Host, r report) {
		n := h.Names
		switch {
		case n == nil || h.Hostname == "":
		case n.Error != "":
			text := "its own name has no address"
			if strings.Contains(n.Error, "timeout") || strings.Contains(n.Error, "deadline") {
				text = "its own name cannot be resolved: the resolver does not answer"
			}
			r.warnIf(several, text, h.Hostname+": "+n.Error, "getent ahosts $(hostname); grep -n . /etc/hosts")
		case len(n.Addresses) > 0 && firstUsable(n.Addresses) == "":
			evidence := fmt.Sprintf("%s is %s", h.Hostname, strings.Join(n.Addresses, ", "))
			if n.HostsLine != "" {
				evidence = "/etc/hosts: " + n.HostsLine
			}
			r.warnIf(several, "its own name is the loopback address, which leads every host to itself", evidence,
				"grep -n \"$(hostname)\" /etc/hosts # the name belongs there behind the host's own address, or nowhere "+
					"where DNS has it")
		}
	})(c, r)
}
