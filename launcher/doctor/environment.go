package doctor

import "slices"

// environmentChecks pass on what others found of the environment that ranks get: remarks
// in a Host are about that one, those of the Cluster about all.
func environmentChecks() []Check {
	return []Check{{
		"environment", "environment",
		"variables of NCCL, RCCL, PyTorch and MPI that are unknown, or do harm",
		"A misspelt variable does nothing, and one that forces an algorithm or a device makes other hosts fail.",
		func(c *Cluster) []Finding {
			all := each(func(h *Host) []Finding { return slices.Clone(h.Notes) })(c)
			return append(all, on(c.names(), slices.Clone(c.Notes))...)
		},
	}}
}
