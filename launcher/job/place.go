package job

import (
	"fmt"

	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// PlacementSpec is where on its host a rank runs; the zero value leaves it to gorun.
type PlacementSpec struct {
	MapBy       placement.MapBy
	BindTo      placement.BindTo
	RankBy      placement.RankBy
	NUMABinding placement.NUMABinding
	CPUsPerRank int
	GPUsPerRank int
	GPUs        placement.GPUChoice
	RankFile    *placement.RankFile
	Memory      MemorySpec
	// Isolate has each rank see its own GPUs alone.
	Isolate bool
	// Report has it said where each rank is, ReportOpenMPI in the words of Open MPI 4.
	Report, ReportOpenMPI bool
	// Machine has it shown what each node is like.
	Machine bool
}

// Shows reports whether something of that is to be said.
func (w *PlacementSpec) Shows() bool { return w.Report || w.ReportOpenMPI || w.Machine }

// MemorySpec is the memory policy of ranks that are bound to CPUs.
type MemorySpec uint8

const (
	// MemoryPreferred: from the NUMA nodes of the rank's CPUs, and from others when
	// these are full.
	MemoryPreferred MemorySpec = iota
	// MemoryBind: from these alone; a rank for which they are too small is killed.
	MemoryBind
	// MemoryInterleave: in turn from these; a rank that is not bound has it from the
	// nodes of all CPUs.
	MemoryInterleave
	// MemoryNone: as the kernel does without.
	MemoryNone
)

// policy is the kernel's number for nodes of memory; 0: none is to be set.
func (w MemorySpec) policy(nodes placement.CPUSet) spec.MemoryPolicy {
	switch {
	case nodes.Len() == 0 || w == MemoryNone:
		return 0
	case w == MemoryBind:
		return spec.MemoryBind
	case w == MemoryInterleave:
		return spec.MemoryInterleave
	case nodes.Len() == 1:
		return spec.MemoryPreferred
	}
	return spec.MemoryPreferredMany
}

// NeedsTopology reports whether the memory wish depends on the NUMA nodes of a
// machine even where nobody is bound to CPUs of it.
func (w PlacementSpec) NeedsTopology() bool {
	return w.Memory == MemoryBind || w.Memory == MemoryInterleave
}

// apply adds the wish to a request.
func (w PlacementSpec) apply(r *placement.Request) {
	r.MapBy, r.BindTo, r.RankBy, r.NUMABinding = w.MapBy, w.BindTo, w.RankBy, w.NUMABinding
	r.CPUsPerRank, r.GPUsPerRank, r.GPUs, r.RankFile = w.CPUsPerRank, w.GPUsPerRank, w.GPUs, w.RankFile
}

// place gives a rank what the layout says of it.
func (b *builder) place(r *Rank, at placement.Rank) {
	r.CPUs, r.GPUs, r.Reason, r.threads = at.CPUs, at.GPUs, at.Reason, at.Threads
	r.GPU = gpuNames(at.GPUs)
	if f, wish := b.facts[at.Node], b.spec.Place.Memory; f.choosesMemory() {
		if r.Memories = at.Memories; wish == MemoryInterleave && r.CPUs.Len() == 0 {
			r.Memories = f.Machine.Memories()
		}
		r.MemoryPolicy = wish.policy(r.Memories)
	}
	if r.MemoryPolicy == 0 {
		r.Memories = placement.CPUSet{}
	}
}

// choosesMemory reports whether a node has more than one kind of memory.
func (f Facts) choosesMemory() bool {
	return f.Machine.Topology != nil && len(f.Machine.Topology.Nodes) > 1
}

// homeless are remarks on ranks for which a memory policy was wished and none can be
// set: a job that would rather be killed than have memory from afar has to know.
func (b *builder) homeless() (notes []string) {
	name := map[MemorySpec]string{MemoryBind: "bind", MemoryInterleave: "interleave"}[b.spec.Place.Memory]
	if name == "" {
		return nil
	}
	var unbound, bare []int
	for _, r := range b.plan.Ranks {
		switch {
		case r.MemoryPolicy != 0 || !b.facts[r.Node].choosesMemory():
		case r.CPUs.Len() == 0:
			unbound = append(unbound, r.Rank)
		default:
			bare = append(bare, r.Rank)
		}
	}
	note := func(ranks []int, why string) {
		if len(ranks) > 0 {
			notes = append(notes, fmt.Sprintf("--bind-mem %s has no effect on %s, rank %d first: %s", name,
				plural(len(ranks), "rank"), ranks[0], why))
		}
	}
	note(unbound, "not bound to CPUs")
	note(bare, "the NUMA nodes of the CPUs have no memory that may be used")
	return notes
}
