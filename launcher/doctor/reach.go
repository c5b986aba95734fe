package doctor

import (
	"fmt"
)

// NotLookedAt is the check whose findings are what the others could not look at.
const NotLookedAt = "not-looked-at"

func reachChecks() []Check {
	return []Check{
		{
			ID: "reach", Group: "reach",
			What: "whether gorun gets to each host and starts itself there",
			Why:  "A job starts on all of its hosts or on none.",
			Run: func(c *Cluster) (all []Finding) {
				for _, u := range c.Unreached {
					all = append(all, Finding{
						Severity: Error, Hosts: u.Hosts, Text: u.Text, Evidence: u.Hint,
						Fix: c.again("gorun hosts check -v", u.Hosts...),
					})
				}
				return all
			},
		},
		{
			ID: "gorun-version", Group: "reach",
			What: "whether the same gorun runs on all hosts",
			Why:  "Agents of another version may refuse what this one says.",
			Run: func(c *Cluster) (all []Finding) {
				for _, h := range c.Hosts {
					if h.Gorun != "" && h.Gorun != c.Gorun {
						all = append(all, Finding{
							Severity: Warning, Hosts: []string{h.Name}, Text: fmt.Sprintf("its gorun is %s, this one %s", h.Gorun,
								c.Gorun), Evidence: h.Executable,
							Fix: c.again("gorun hosts check", h.Name) + " # without --agent this gorun is copied there",
						})
					}
				}
				return all
			},
		},
		{
			ID: "same-machine", Group: "reach",
			What: "whether two names mean one machine",
			Why:  "Ranks on both names share its CPUs, GPUs and memory, and NCCL takes them for neighbours.",
			Run:  sameMachine,
		},
		{
			ID: NotLookedAt, Group: "reach",
			What: "what could not be looked at in time",
			Why:  "A check that did not run finds nothing.",
			Run:  missed,
		},
	}
}

func sameMachine(c *Cluster) (all []Finding) {
	first := map[string]*Host{}
	for _, h := range c.Hosts {
		if h.Boot == "" {
			continue
		}
		key := h.Boot + h.Hostname
		switch other := first[key]; {
		case other == nil:
			first[key] = h
		default:
			all = append(all, Finding{
				Severity: Note, Hosts: []string{other.Name, h.Name},
				Text:     "these names mean one machine, or containers of one that have the same host name",
				Evidence: fmt.Sprintf("/proc/sys/kernel/random/boot_id %s, host name %s", h.Boot, h.Hostname),
				Fix:      "hostname; cat /proc/sys/kernel/random/boot_id",
			})
		}
	}
	return all
}

// missed has what is the same on several hosts once, with a command that looks there again.
func missed(c *Cluster) (all []Finding) {
	for _, h := range c.Hosts {
		for _, text := range h.Unknown {
			all = add(all, Finding{Severity: Note, Hosts: []string{h.Name}, Text: text})
		}
	}
	for i := range all {
		if all[i].Fix = c.again("gorun doctor -v", all[i].Hosts...); !c.several() && c.Hosts[0].Here {
			all[i].Fix = "gorun doctor -v"
		}
	}
	return all
}
