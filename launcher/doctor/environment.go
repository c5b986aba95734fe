package doctor

// environmentChecks report what other packages found in the environment of ranks.
func environmentChecks() []Check {
	return []Check{{
		"environment", "environment",
		"unknown or harmful variables of NCCL, RCCL, PyTorch and MPI",
		"A misspelled variable has no effect, and one that forces an algorithm or a device makes other hosts fail.",
		func(c *Cluster, r report) {
			pass := func(r report, notes []Finding) {
				for _, f := range notes {
					r.add(f.Severity, f.Text, f.Evidence, f.Fix)
				}
			}
			each(func(h *Host, r report) { pass(r, h.Notes) })(c, r)
			pass(r.about(c.names()...), c.Notes)
		},
	}}
}
