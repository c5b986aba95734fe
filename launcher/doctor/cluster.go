package doctor

import (
	"cmp"
	"slices"
	"strings"

	"gorun/internal/shellwords"
)

// Cluster is everything that the checks look at.
type Cluster struct {
	Gorun   string  `json:"gorun"`             // version of this one
	Program string  `json:"program,omitempty"` // as the user named it; "" for none
	Asked   int     `json:"asked"`             // hosts, those included that were not reached
	Hosts   []*Host `json:"hosts"`             // that said what they have
	Network Network `json:"network"`
	// Unreached are hosts that could not be looked at.
	Unreached []Problem `json:"unreached,omitempty"`
	// Notes are findings of others about all hosts, as on the environment.
	Notes []Finding `json:"remarks,omitempty"`
	// Options are those by which the hosts are reached, and Spelled is how a command line
	// names them where that is not by their names: for commands of gorun that look again.
	Options string            `json:"-"`
	Spelled map[string]string `json:"-"`
}

// again is a command of gorun on some of the hosts.
func (c *Cluster) again(command string, hosts ...string) string {
	words := slices.Clone(hosts)
	for i, name := range words {
		words[i] = cmp.Or(c.Spelled[name], name)
	}
	if c.Options != "" {
		command += " " + c.Options
	}
	return command + " -H " + shellwords.Quote(strings.Join(words, ","))
}

// names are those of the hosts that said what they have.
func (c *Cluster) names() (names []string) {
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	return names
}

// some reports whether a host has something.
func (c *Cluster) some(has func(*Host) bool) bool { return slices.ContainsFunc(c.Hosts, has) }

// several reports whether a job would span hosts.
func (c *Cluster) several() bool { return c.Asked > 1 }

// machines counts the hosts, those that are one machine by several names once.
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
