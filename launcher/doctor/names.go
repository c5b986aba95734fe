package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

func nameChecks() []Check {
	return []Check{
		{
			ID: "hostname", Group: "names",
			What: "whether the host's own name has an address that other hosts can use",
			Why: "Gloo and MPI libraries tell others the address of their own name. Debian's /etc/hosts says 127.0.1.1, by " +
				"which everybody reaches himself.",
			Run: hostname,
		},
		{
			ID: "reverse-name", Group: "names",
			What: "whether the address of the host's name has that name",
			Why:  "Programs that compare names (getfqdn) do not know themselves then.",
			Run: each(func(h *Host) []Finding {
				n := h.Names
				if n == nil || len(n.Reverse) == 0 {
					return nil
				}
				for _, name := range n.Reverse {
					if sameHost(name, h.Hostname) {
						return nil
					}
				}
				return []Finding{{
					Severity: Note, Text: fmt.Sprintf("its address is called %s, it calls itself %s", n.Reverse[0], h.Hostname),
					Evidence: "the resolver, for " + firstUsable(n.Addresses), Fix: "getent hosts " + firstUsable(n.Addresses),
				}}
			}),
		},
	}
}

// sameHost compares names with and without domain.
func sameHost(a, b string) bool {
	a, b = strings.TrimSuffix(a, "."), strings.TrimSuffix(b, ".")
	head := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
	return strings.EqualFold(head(a), head(b))
}

// firstUsable is the first address that is not the host's own business.
func firstUsable(addresses []string) string {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() && !a.IsUnspecified() {
			return text
		}
	}
	return ""
}

func hostname(c *Cluster) (all []Finding) {
	severity := Note // alone a host reaches itself
	if c.machines() > 1 {
		severity = Warning
	}
	for _, h := range c.Hosts {
		n := h.Names
		switch {
		case n == nil || h.Hostname == "":
		case n.Error != "":
			text := "its own name has no address"
			if strings.Contains(n.Error, "timeout") || strings.Contains(n.Error, "deadline") {
				text = "nobody says what address its own name has: the resolver does not answer"
			}
			all = append(all, Finding{
				Severity: severity, Hosts: []string{h.Name}, Text: text, Evidence: h.Hostname + ": " + n.Error,
				Fix: "getent ahosts $(hostname); grep -n . /etc/hosts",
			})
		case len(n.Addresses) > 0 && firstUsable(n.Addresses) == "":
			evidence := fmt.Sprintf("%s is %s", h.Hostname, strings.Join(n.Addresses, ", "))
			if n.HostsLine != "" {
				evidence = "/etc/hosts: " + n.HostsLine
			}
			all = append(all, Finding{
				Severity: severity, Hosts: []string{h.Name},
				Text: "its own name is the loopback address, which leads every host to itself", Evidence: evidence,
				Fix: "grep -n \"$(hostname)\" /etc/hosts # the name belongs there behind the host's own address, or nowhere " +
					"where DNS has it",
			})
		}
	}
	return all
}
