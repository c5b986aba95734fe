package doctor

func networkChecks() []Check {
	return []Check{
		{
			"unreachable", "network",
			"whether hosts reach each other by TCP, on random ports",
			"Ranks listen on random ports. A firewall that drops other packets makes them wait for minutes.",
			measured("reach", Error),
		},
		{
			"path-mtu", "network",
			"whether large packets arrive between the hosts as small ones do",
			"If a link on the path passes only smaller packets and no router reports it, connections open and then stall.",
			measured("mtu", Error),
		},
		{
			"packet-loss", "network",
			"the share of resent packets between hosts",
			"TCP treats a lost packet as congestion and slows down: one in a hundred at least halves the speed.",
			measured("loss", Warning),
		},
		{
			"network-speed", "network",
			"how fast each host sends to another, and how long a round trip takes, compared with the other hosts and " +
				"with its link",
			"The slowest path limits the speed of a collective.",
			measured("speed", Warning),
		},
		{
			"network-interface", "network",
			"interfaces without a working network, and addresses that libraries may use by mistake",
			"NCCL and Gloo choose an interface themselves if none is named.",
			measured("interface", Error),
		},
		{
			"no-address", "network",
			"whether the first host has an address that all others reach",
			"MASTER_ADDR must be such an address.",
			func(c *Cluster, r report) {
				if c.Network.Error != "" {
					r.about(c.names()...).fail(c.Network.Error, c.Network.Hint, "ip -br addr; ip route")
				}
			},
		},
	}
}

// measured reports the problems that one kind of measurement found.
func measured(check string, severity Severity) func(*Cluster, report) {
	return func(c *Cluster, r report) {
		for _, p := range c.Network.Problems {
			evidence, severity := "measured between the hosts", severity
			if p.Advice != "" {
				evidence += "; " + p.Advice
			}
			if p.Note {
				severity = Note
			}
			if p.Check == check {
				r.about(p.Hosts...).add(severity, p.Text, evidence, p.Hint)
			}
		}
	}
}
