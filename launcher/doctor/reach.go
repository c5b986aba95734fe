package doctor

import "fmt"

// IDs of checks.
const (
	Reach   = "reach"         // of hosts, by the launcher
	Skipped = "not-looked-at" // what could not be inspected
)

func reachChecks() []Check {
	return []Check{
		{
			Reach, "reach",
			"whether gorun can reach each host and start there",
			"A job starts on all of its hosts or on none.",
			func(c *Cluster, r report) {
				for _, f := range c.Found {
					if f.Check == Reach {
						f.Fix = c.command("gorun hosts check -v", f.Hosts...)
						r.merge(f)
					}
				}
			},
		},
		{
			"gorun-version", "reach",
			"whether the same gorun runs on all hosts",
			"Agents of another version may not understand this gorun.",
			func(c *Cluster, r report) {
				each(func(h *Host, r report) {
					if h.Gorun != "" && h.Gorun != c.Gorun {
						r.warn(fmt.Sprintf("its gorun is %s, this one %s", h.Gorun, c.Gorun), h.Executable,
							c.command("gorun hosts check", h.Name)+" # without --agent this gorun is copied there")
					}
				})(c, r)
			},
		},
		{
			"same-machine", "reach",
			"whether two names refer to one machine",
			"Ranks on both names share its CPUs, GPUs and memory, and NCCL treats them as neighbours.",
			sameMachine,
		},
		{
			Skipped, "reach",
			"checks that did not finish in time",
			"A check that did not run finds nothing.",
			skipped,
		},
	}
}

func sameMachine(c *Cluster, r report) {
	first := map[string]*Host{}
	for _, h := range c.Hosts {
		key := h.Boot + h.Hostname
		switch other := first[key]; {
		case h.Boot == "":
		case other == nil:
			first[key] = h
		default:
			r.about(other.Name, h.Name).note("these names are one machine, or containers on it with the same host name",
				fmt.Sprintf("/proc/sys/kernel/random/boot_id %s, host name %s", h.Boot, h.Hostname),
				"hostname; cat /proc/sys/kernel/random/boot_id")
		}
	}
}

func skipped(c *Cluster, r report) {
	first := len(*r.findings)
	for _, h := range c.Hosts {
		for _, text := range h.Unknown {
			r.about(h.Name).note(text, "", "")
		}
	}
	for i := first; i < len(*r.findings); i++ {
		f := &(*r.findings)[i]
		if f.Fix = c.command("gorun doctor -v", f.Hosts...); !c.several() && c.Hosts[0].Here {
			f.Fix = "gorun doctor -v"
		}
	}
}
