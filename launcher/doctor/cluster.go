package doctor

import (
	"cmp"
	"slices"
	"strings"

	"gorun/internal/shellwords"
	"gorun/launcher/hosts"
)

// Cluster is the input of all checks.
type Cluster struct {
	Gorun   string  `json:"-"`                 // version of this one
	Program string  `json:"program,omitempty"` // as the user named it; "" if none
	Asked   int     `json:"host_count"`        // number of hosts, unreached ones included
	Hosts   []*Host `json:"hosts"`             // that were inspected
	Network Network `json:"network"`           // how the hosts reach each other
	// Unreached are hosts that could not be inspected.
	Unreached []Problem `json:"unreached,omitempty"`
	// Notes are findings of other packages about all hosts, such as about the environment.
	Notes []Finding `json:"notes,omitempty"`
	// Options are the command-line options that reach the hosts, and Spelled how a command line names a host if not by
	// its name: for suggested gorun commands.
	Options string            `json:"-"`
	Spelled map[string]string `json:"-"`
}

// Network is what was measured between the hosts.
type Network struct {
	// Summary is one line: "2 of 2 ways between 2 hosts work"; "" if nothing was measured.
	Summary string `json:"summary,omitempty"`
	// Address is what MASTER_ADDR would be; "" if no address is reached by all hosts.
	Address string `json:"address,omitempty"`
	// Problems are ordered by severity.
	Problems []Problem `json:"problems,omitempty"`
	// Error says why there is no such address, or why nothing was measured; Hint says what to do about it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Problem is something wrong with some hosts or with the network between them.
type Problem struct {
	// Check is what was measured of the network: "reach", "mtu", "loss", "speed" or "interface".
	Check string   `json:"check,omitempty"`
	Hosts []string `json:"hosts,omitempty"` // hosts that it is about; absent for all
	Text  string   `json:"text"`            // one line, without the hosts
	// Advice says what to do; Hint is a command that repairs it or shows more.
	Advice string `json:"advice,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Note says that jobs run all the same.
	Note bool `json:"note,omitempty"`
}

// String returns the hosts, as a host range, and the text.
func (p *Problem) String() string { return hosts.NodeList(p.Hosts) + ": " + p.Text }

// command returns a gorun command for some of the hosts.
func (c *Cluster) command(command string, hosts ...string) string {
	words := slices.Clone(hosts)
	for i, name := range words {
		words[i] = cmp.Or(c.Spelled[name], name)
	}
	if c.Options != "" {
		command += " " + c.Options
	}
	return command + " -H " + shellwords.Quote(strings.Join(words, ","))
}

// names returns the names of the inspected hosts.
func (c *Cluster) names() (names []string) {
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	return names
}

func (c *Cluster) any(has func(*Host) bool) bool { return slices.ContainsFunc(c.Hosts, has) }

// several reports whether a job would span hosts.
func (c *Cluster) several() bool { return c.Asked > 1 }

// machines counts the hosts; several names of one machine count once.
func (c *Cluster) machines() int {
	n, seen := c.Asked-len(c.Hosts), map[string]bool{}
	for _, h := range c.Hosts {
		if key := h.Boot + h.Hostname; h.Boot == "" || !seen[key] {
			seen[key] = true
			n++
		}
	}
	return n
}
