package doctor

// Network is what was measured between the hosts.
type Network struct {
	// Summary is that in a few words: "2 of 2 ways between 2 hosts work"; "" where nothing was
	// measured.
	Summary string `json:"summary,omitempty"`
	// Address is what MASTER_ADDR would be, "" if there is none that all reach.
	Address string `json:"address,omitempty"`
	// Flaws are what is wrong with it, the worst first.
	Flaws []Flaw `json:"flaws,omitempty"`
	// Error is why there is no such address, or why it is not known who reaches whom; Hint
	// what to do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Flaw is something wrong with the network of some hosts.
type Flaw struct {
	// Check is what was measured: "reach", "mtu", "loss", "speed" or "interface".
	Check string   `json:"check"`
	Hosts []string `json:"hosts"`
	Text  string   `json:"text"`
	// Advice is what to do in words, Hint a command that shows more, or repairs it.
	Advice string `json:"advice,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Remark says that jobs run all the same.
	Remark bool `json:"remark,omitempty"`
}

func networkChecks() []Check {
	return []Check{
		{
			ID: "unreachable", Group: "network",
			What: "which hosts reach which by TCP, at ports that nobody has chosen",
			Why:  "Ranks listen at random ports. A firewall that drops what it does not know makes them wait for minutes.",
			Run:  flaws("reach", Error),
		},
		{
			ID: "path-mtu", Group: "network",
			What: "whether large packets arrive between the hosts as small ones do",
			Why:  "Where a link on the way takes smaller packets and nobody says so, connections are made and then stand still.",
			Run:  flaws("mtu", Error),
		},
		{
			ID: "packet-loss", Group: "network",
			What: "how much of what hosts send to each other has to be sent again",
			Why:  "TCP takes a lost packet for a full way and slows down: one in a hundred halves the speed, and more.",
			Run:  flaws("loss", Warning),
		},
		{
			ID: "network-speed", Group: "network",
			What: "how fast each host sends to another, and how long a round trip takes, compared with the other hosts and " +
				"with its link",
			Why: "The slowest way sets the pace of a collective.",
			Run: flaws("speed", Warning),
		},
		{
			ID: "network-interface", Group: "network",
			What: "interfaces that lead nowhere, and addresses that libraries may take by mistake",
			Why:  "NCCL and Gloo look for an interface by themselves where nobody names one.",
			Run:  flaws("interface", Error),
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
				return []Finding{{
					Severity: Error, Hosts: names, Text: c.Network.Error, Evidence: c.Network.Hint,
					Fix: "ip -br addr; ip route",
				}}
			},
		},
	}
}

// flaws passes on what a measurement found; remarks are notes.
func flaws(check string, severity Severity) func(*Cluster) []Finding {
	return func(c *Cluster) (all []Finding) {
		for _, f := range c.Network.Flaws {
			if f.Check != check {
				continue
			}
			finding := Finding{
				Severity: severity, Hosts: f.Hosts, Text: f.Text, Evidence: "measured between the hosts",
				Fix: f.Hint,
			}
			if f.Advice != "" {
				finding.Evidence += "; " + f.Advice
			}
			if f.Remark {
				finding.Severity = Note
			}
			all = append(all, finding)
		}
		return all
	}
}
