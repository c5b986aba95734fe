package doctor

// Network is what was measured between the hosts.
type Network struct {
	// Summary is that in a few words: "2 of 2 ways between 2 hosts work"; "" where nothing was
	// measured.
	Summary string `json:"summary,omitempty"`
	// Address is what MASTER_ADDR would be, "" if there is none that all reach.
	Address string `json:"address,omitempty"`
	Ways    []Way  `json:"ways,omitempty"`
	// Error is why there is no such address, or why it is not known who reaches whom; Hint
	// what to do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Way is from one host to another.
type Way struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`           // for a round trip
	Problem string  `json:"problem,omitempty"` // why there is none
}

func networkChecks() []Check {
	return []Check{
		{
			ID: "unreachable", Group: "network",
			What: "which hosts reach which by TCP, at ports that nobody has chosen",
			Why:  "Ranks listen at random ports. A firewall that drops what it does not know makes them wait for minutes.",
			Run:  unreachable,
		},
		{
			ID: "no-address", Group: "network",
			What: "whether there is an address of the first host that all others reach",
			Why:  "It is what MASTER_ADDR has to be.",
			Run: func(c *Cluster) []Finding {
				if c.Network.Error == "" {
					return nil
				}
				var names []string
				for _, h := range c.Hosts {
					names = append(names, h.Name)
				}
				return []Finding{{Severity: Error, Hosts: names, Text: c.Network.Error, Evidence: c.Network.Hint, Fix: "ip -br addr; ip route"}}
			},
		},
	}
}

// unreachable tells of each host whom it does not reach, and why.
func unreachable(c *Cluster) (all []Finding) {
	type reason struct{ from, why string }
	to := map[reason][]string{}
	var order []reason
	for _, w := range c.Network.Ways {
		if w.Problem == "" {
			continue
		}
		r := reason{w.From, w.Problem}
		if to[r] == nil {
			order = append(order, r)
		}
		to[r] = append(to[r], w.To)
	}
	for _, r := range order {
		all = append(all, Finding{
			Severity: Error, Hosts: []string{r.from}, Text: "does not reach " + Finding{Hosts: to[r]}.Where() + " by TCP: " + r.why, Evidence: "connections at random ports",
			Fix: "sudo nft list ruleset; sudo iptables -S # let hosts of a job reach each other at all ports",
		})
	}
	return all
}
