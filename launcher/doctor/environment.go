package doctor

// environmentChecks pass on what others found of the environment that ranks get: remarks
// in a Host are about that one, those of the Cluster about all.
func environmentChecks() []Check {
	return []Check{{
		ID: "environment", Group: "environment",
		What: "variables of NCCL, RCCL, PyTorch and MPI that are unknown, or do harm",
		Why:  "A misspelt variable does nothing, and one that forces an algorithm or a device makes other hosts fail.",
		Run: func(c *Cluster) (all []Finding) {
			var names []string
			for _, h := range c.Hosts {
				names = append(names, h.Name)
				for _, r := range h.Remarks {
					all = append(all, r.finding([]string{h.Name}))
				}
			}
			for _, r := range c.Remarks {
				all = append(all, r.finding(names))
			}
			return all
		},
	}}
}

func (r Remark) finding(hosts []string) Finding {
	return Finding{Severity: r.Severity, Hosts: hosts, Text: r.Text, Evidence: r.Evidence, Fix: r.Fix}
}
