package doctor

import (
	"cmp"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

// Cluster is the input of all checks.
type Cluster struct {
	Gorun   string  `json:"-"`                 // version of this one
	Program string  `json:"program,omitempty"` // as the user named it; "" if none
	Asked   int     `json:"host_count"`        // number of hosts, unreached ones included
	Hosts   []*Host `json:"hosts"`             // that were inspected
	// Reached are all hosts, in the order of the job.
	Reached []Reached `json:"-"`
	Network *Network  `json:"-"` // how the hosts reach each other; nil if that was not measured
	// Found are findings of other packages, each of a check: about hosts that cannot be inspected, and the network.
	Found []Finding `json:"-"`
	// Notes are findings of other packages about all hosts, such as about the environment.
	Notes []Finding `json:"notes,omitempty"`
	// Options are the command-line options that reach the hosts, and Spelled how a command line names a host if not by
	// its name: for suggested gorun commands.
	Options string            `json:"-"`
	Spelled map[string]string `json:"-"`
}

// Reached is how a host was reached.
type Reached struct {
	Name    string  `json:"host"`             // as the user named it
	Here    bool    `json:"here,omitempty"`   // gorun runs on it
	OK      bool    `json:"reached"`          // whether gorun could start an agent there
	Seconds float64 `json:"reach_seconds"`    // until its agent ran, or until the attempt failed
	Step    string  `json:"step,omitempty"`   // where reaching the host failed; "" if it was reached
	Copied  bool    `json:"copied,omitempty"` // gorun was copied there
	Host    *Host   `json:"-"`                // what was found there; nil if it did not answer
}

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
