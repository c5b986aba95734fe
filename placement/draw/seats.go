package draw

import "gorun/placement"

// Seat is the place of one rank on the machine that is drawn.
type Seat struct {
	Rank int
	// CPUs are those that it may run on; empty: all that the job may use.
	CPUs placement.CPUSet
	// Memories are the NUMA nodes whose memory it prefers; empty: any.
	Memories placement.CPUSet
	GPUs     []placement.GPU
}
