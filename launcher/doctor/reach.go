package doctor

import "fmt"

// Skipped is the check whose findings are what the others could not look at.
const Skipped = "not-looked-at"

func reachChecks() []Check {
	return []Check{
		{
			"reach", "reach",
			"whether gorun gets to each host and starts itself there",
			"A job starts on all of its hosts or on none.",
			func(c *Cluster) (all []Finding) {
				for _, u := range c.Unreached {
					all = append(all, on(u.Hosts, failure(u.Text, u.Hint, c.again("gorun hosts check -v", u.Hosts...)))...)
				}
				return all
			},
		},
		{
			"gorun-version", "reach",
			"whether the same gorun runs on all hosts",
			"Agents of another version may refuse what this one says.",
			func(c *Cluster) []Finding {
				return each(func(h *Host) []Finding {
					if h.Gorun == "" || h.Gorun == c.Gorun {
						return nil
					}
					return warning(fmt.Sprintf("its gorun is %s, this one %s", h.Gorun, c.Gorun), h.Executable,
						c.again("gorun hosts check", h.Name)+" # without --agent this gorun is copied there")
				})(c)
			},
		},
		{
			"same-machine", "reach",
			"whether two names mean one machine",
			"Ranks on both names share its CPUs, GPUs and memory, and NCCL takes them for neighbours.",
			sameMachine,
		},
		{
			Skipped, "reach",
			"what could not be looked at in time",
			"A check that did not run finds nothing.",
			missed,
		},
	}
}

func sameMachine(c *Cluster) (all []Finding) {
	first := map[string]*Host{}
	for _, h := range c.Hosts {
		key := h.Boot + h.Hostname
		switch other := first[key]; {
		case h.Boot == "":
		case other == nil:
			first[key] = h
		default:
			all = append(all, on([]string{other.Name, h.Name},
				note("these names mean one machine, or containers of one that have the same host name",
					fmt.Sprintf("/proc/sys/kernel/random/boot_id %s, host name %s", h.Boot, h.Hostname),
					"hostname; cat /proc/sys/kernel/random/boot_id"))...)
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
