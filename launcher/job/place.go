package job

import "gorun/placement"

// PlaceWish is where on its host a rank runs; the zero value leaves it to gorun.
type PlaceWish struct {
	MapBy       placement.MapBy
	BindTo      placement.BindTo
	RankBy      placement.RankBy
	NUMABinding placement.NUMABinding
	CPUsPerRank int
	GPUsPerRank int
	GPUs        placement.GPUChoice
	RankFile    *placement.RankFile
	Memory      MemoryWish
	// Isolate has each rank see its own GPUs alone.
	Isolate bool
	// Report has it said where each rank is.
	Report bool
}

// MemoryWish is the memory policy of ranks that are bound to CPUs.
type MemoryWish uint8

const (
	// MemoryPreferred: from the NUMA nodes of the rank's CPUs, and from others when
	// these are full.
	MemoryPreferred MemoryWish = iota
	// MemoryBind: from these alone; a rank for which they are too small is killed.
	MemoryBind
	// MemoryInterleave: in turn from these.
	MemoryInterleave
	// MemoryNone: as the kernel does without.
	MemoryNone
)

// MemoryPolicy is a policy by its number in set_mempolicy(2); 0 leaves the kernel's.
type MemoryPolicy int

const (
	policyPreferred     MemoryPolicy = 1
	policyBind          MemoryPolicy = 2
	policyInterleave    MemoryPolicy = 3
	policyPreferredMany MemoryPolicy = 5
)

// String is the policy as --bind-mem names it.
func (p MemoryPolicy) String() string {
	switch p {
	case policyPreferred, policyPreferredMany:
		return "preferred"
	case policyBind:
		return "bind"
	case policyInterleave:
		return "interleave"
	}
	return "none"
}

// MarshalText makes JSON show the policy's name.
func (p MemoryPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// policy is the kernel's number for nodes of memory; 0: none is to be set.
func (w MemoryWish) policy(nodes placement.CPUSet) MemoryPolicy {
	switch {
	case nodes.Len() == 0 || w == MemoryNone:
		return 0
	case w == MemoryBind:
		return policyBind
	case w == MemoryInterleave:
		return policyInterleave
	case nodes.Len() == 1:
		return policyPreferred
	}
	return policyPreferredMany
}

// apply adds the wish to a request.
func (w PlaceWish) apply(r *placement.Request) {
	r.MapBy, r.BindTo, r.RankBy, r.NUMABinding = w.MapBy, w.BindTo, w.RankBy, w.NUMABinding
	r.CPUsPerRank, r.GPUsPerRank, r.GPUs, r.RankFile = w.CPUsPerRank, w.GPUsPerRank, w.GPUs, w.RankFile
}

// place gives a rank what the layout says of it.
func (b *builder) place(r *Rank, at placement.Rank) {
	r.CPUs, r.GPUs, r.Reason, r.threads = at.CPUs, at.GPUs, at.Reason, at.Threads
	r.GPU = gpuNames(at.GPUs)
	if b.facts[at.Node].Machine.Topology != nil && len(b.facts[at.Node].Machine.Topology.Nodes) > 1 { // else there is nothing to choose
		r.Memories, r.MemoryPolicy = at.Memories, b.spec.Place.Memory.policy(at.Memories)
	}
	if r.MemoryPolicy == 0 {
		r.Memories = placement.CPUSet{}
	}
}
