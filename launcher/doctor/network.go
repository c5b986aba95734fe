package doctor

import "gorun/launcher/hosts"

// Network is what was measured between the hosts.
type Network struct {
	// Summary is that in a few words: "2 of 2 ways between 2 hosts work"; "" where nothing was
	// measured.
	Summary string `json:"summary,omitempty"`
	// Address is what MASTER_ADDR would be, "" if there is none that all reach.
	Address string `json:"address,omitempty"`
	// Problems are what is wrong with it, the worst first.
	Problems []Problem `json:"flaws,omitempty"`
	// Error is why there is no such address, or why it is not known who reaches whom; Hint
	// what to do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Problem is something wrong, or strange, with some hosts or with the network between them.
type Problem struct {
	// Check is what was measured of the network: "reach", "mtu", "loss", "speed" or "interface".
	Check string   `json:"check,omitempty"`
	Hosts []string `json:"hosts"`
	Text  string   `json:"text"`
	// Advice is what to do in words, Hint a command that shows more, or repairs it.
	Advice string `json:"advice,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Note says that jobs run all the same.
	Note bool `json:"remark,omitempty"`
}

// String names the hosts, folded, and what they have.
func (f *Problem) String() string { return hosts.Fold(f.Hosts) + ": " + f.Text }

func networkChecks() []Check {
	return []Check{
		{
			"unreachable", "network",
			"which hosts reach which by TCP, at ports that nobody has chosen",
			"Ranks listen at random ports. A firewall that drops what it does not know makes them wait for minutes.",
			flaws("reach", Error),
		},
		{
			"path-mtu", "network",
			"whether large packets arrive between the hosts as small ones do",
			"Where a link on the way takes smaller packets and nobody says so, connections are made and then stand still.",
			flaws("mtu", Error),
		},
		{
			"packet-loss", "network",
			"how much of what hosts send to each other has to be sent again",
			"TCP takes a lost packet for a full way and slows down: one in a hundred halves the speed, and more.",
			flaws("loss", Warning),
		},
		{
			"network-speed", "network",
			"how fast each host sends to another, and how long a round trip takes, compared with the other hosts and " +
				"with its link",
			"The slowest way sets the pace of a collective.",
			flaws("speed", Warning),
		},
		{
			"network-interface", "network",
			"interfaces that lead nowhere, and addresses that libraries may take by mistake",
			"NCCL and Gloo look for an interface by themselves where nobody names one.",
			flaws("interface", Error),
		},
		{
			"no-address", "network",
			"whether there is an address of the first host that all others reach",
			"It is what MASTER_ADDR has to be.",
			func(c *Cluster) []Finding {
				if c.Network.Error == "" {
					return nil
				}
				return on(c.names(), failure(c.Network.Error, c.Network.Hint, "ip -br addr; ip route"))
			},
		},
	}
}

// flaws passes on what a measurement found; remarks are notes.
func flaws(check string, severity Severity) func(*Cluster) []Finding {
	return func(c *Cluster) (all []Finding) {
		for _, f := range c.Network.Problems {
			evidence, severity := "measured between the hosts", severity
			if f.Advice != "" {
				evidence += "; " + f.Advice
			}
			if f.Note {
				severity = Note
			}
			if f.Check == check {
				all = append(all, on(f.Hosts, finding(severity, f.Text, evidence, f.Hint))...)
			}
		}
		return all
	}
}
