package job

import (
	"cmp"
	"fmt"

	"gorun/launcher/internal/spec"
	"gorun/placement"
)

// PlacementSpec says where on its host a rank runs; the zero value leaves it to gorun.
type PlacementSpec struct {
	// Request has the mapping, binding and GPUs, and Isolate. Its numbers of ranks and slots are those of the Spec.
	placement.Request
	Memory MemorySpec
	// Report shows where each rank is, ReportOpenMPI in the format of Open MPI 4.
	Report, ReportOpenMPI bool
	// Machine shows the topology of each node.
	Machine bool
}

// Shows reports whether any of that is to be shown.
func (w *PlacementSpec) Shows() bool { return w.Report || w.ReportOpenMPI || w.Machine }

// MemorySpec is the memory policy of ranks that are bound to CPUs.
type MemorySpec uint8

const (
	// MemoryPreferred: from the NUMA nodes of the rank's CPUs, and from others when these are full.
	MemoryPreferred MemorySpec = iota
	// MemoryBind: from these alone; a rank for which they are too small is killed.
	MemoryBind
	// MemoryInterleave: from these in turn, or from the nodes of all CPUs for a rank that is not bound.
	MemoryInterleave
	// MemoryNone: the kernel's default.
	MemoryNone
)

// NeedsTopology reports whether the policy depends on a machine's NUMA nodes even for ranks that are not bound to
// CPUs.
func (m MemorySpec) NeedsTopology() bool { return m == MemoryBind || m == MemoryInterleave }

// policy returns the kernel's policy for nodes of memory; 0: none to set.
func (m MemorySpec) policy(nodes placement.CPUSet) spec.MemoryPolicy {
	switch {
	case nodes.Len() == 0 || m == MemoryNone:
		return 0
	case m == MemoryBind:
		return spec.MemoryBind
	case m == MemoryInterleave:
		return spec.MemoryInterleave
	case nodes.Len() == 1:
		return spec.MemoryPreferred
	}
	return spec.MemoryPreferredMany
}

// Request returns the request for placement of all ranks.
func (s *Spec) Request() placement.Request {
	r := s.request(&s.Place)
	for _, app := range s.Apps {
		if app.Place != nil {
			other := app.Place.Request
			other.Ranks, other.Isolate = app.NumRanks, r.Isolate
			r.Others = append(r.Others, other)
		}
	}
	return r
}

// request completes the request of a part of the job's ranks.
func (s *Spec) request(place *PlacementSpec) placement.Request {
	r := place.Request
	r.Ranks, r.RanksFrom, r.PerNode = s.totalRanks(), s.RanksFrom, s.PerNode
	r.Visible = placement.VisibilityOf(s.withExports(s.Environ))
	for _, h := range s.Hosts {
		r.Slots = append(r.Slots, h.Slots)
		r.MaxSlots = append(r.MaxSlots, h.MaxSlots)
		r.CoreSlots = r.CoreSlots || h.CoreSlots
	}
	r.SlotsFrom = cmp.Or(s.SlotsFrom, s.HostsFrom)
	r.SlotsAllotted = s.Reach.Engine != nil || r.CoreSlots // the user did not choose their number
	r.Isolate, r.Oversubscribe = s.isolates(), s.Oversubscribe
	return r
}

// place sets a rank's CPUs, memory and GPUs.
func (b *builder) place(r *Rank, at placement.Rank) {
	r.CPUs, r.GPUs, r.Reason, r.threads = at.CPUs, at.GPUs, at.Reason, at.Threads
	r.GPU = gpuNames(at.GPUs)
	f, memory := b.facts[at.Node], b.spec.Place.Memory
	if !f.choosesMemory() {
		return
	}
	nodes := at.Memories
	if memory == MemoryInterleave && r.CPUs.Len() == 0 {
		nodes = f.Machine.Memories()
	}
	if r.MemoryPolicy = memory.policy(nodes); r.MemoryPolicy != 0 {
		r.Memories = nodes
	}
}

// choosesMemory reports whether a node has several NUMA nodes.
func (f *Facts) choosesMemory() bool {
	return f.Machine.Topology != nil && len(f.Machine.Topology.Nodes) > 1
}

// memoryWarnings warns of ranks without the memory policy that was requested: a job that would rather be killed than
// use remote memory has to know.
func (b *builder) memoryWarnings() (warnings []string) {
	if !b.spec.Place.Memory.NeedsTopology() {
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
	name := map[MemorySpec]string{MemoryBind: "bind", MemoryInterleave: "interleave"}[b.spec.Place.Memory]
	warn := func(ranks []int, why string) {
		if len(ranks) > 0 {
			warnings = append(warnings, fmt.Sprintf("--bind-mem %s has no effect on %s, rank %d first: %s", name,
				plural(len(ranks), "rank"), ranks[0], why))
		}
	}
	warn(unbound, "not bound to CPUs")
	warn(bare, "the NUMA nodes of the CPUs have no memory that may be used")
	return warnings
}
