package doctor

func networkChecks() []Check {
	return []Check{
		{
			"unreachable", "network",
			"which hosts reach which by TCP, on random ports",
			"Ranks listen at random ports. A firewall that drops what it does not know makes them wait for minutes.",
			measured("reach", Error),
		},
		{
			"path-mtu", "network",
			"whether large packets arrive between the hosts as small ones do",
			"If a link on the path takes only smaller packets and no router reports it, connections are made and then stall.",
			measured("mtu", Error),
		},
		{
			"packet-loss", "network",
			"how much of what hosts send to each other has to be sent again",
			"TCP takes a lost packet for congestion and slows down: one in a hundred halves the speed, and more.",
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
			"interfaces that lead nowhere, and addresses that libraries may take by mistake",
			"NCCL and Gloo choose an interface themselves if none is named.",
			measured("interface", Error),
		},
		{
			"no-address", "network",
			"whether there is an address of the first host that all others reach",
			"It is what MASTER_ADDR has to be.",
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
