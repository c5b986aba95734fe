package placement

import (
	"fmt"
	"slices"
)

// PerNodeKind tells the ways to wish for a number of ranks per node.
type PerNodeKind uint8

const (
	// PerNodeUnset: the user gave no number.
	PerNodeUnset PerNodeKind = iota
	// PerNodeFixed: PerNode.N ranks.
	PerNodeFixed
	// PerNodeAuto: one per GPU, else one per usable CPU.
	PerNodeAuto
	// PerNodeGPU: one per GPU; an error on a node without.
	PerNodeGPU
	// PerNodeCPU: one per usable CPU.
	PerNodeCPU
	// PerNodeCore: one per core that has a usable CPU, as Open MPI counts slots.
	PerNodeCore
	// PerNodeDevice: one per PerNode.Device, as PyTorch on the node counts them: not known here.
	PerNodeDevice
)

// PerNode is a wished number of ranks per node (--nproc-per-node).
type PerNode struct {
	Kind PerNodeKind
	N    int // with PerNodeFixed
	// Device is how PyTorch calls an accelerator ("xpu", "npu"), with PerNodeDevice.
	Device string
	From   string // says so in the user's words: "PET_NPROC_PER_NODE=4"; "" is --nproc-per-node with the wish
}

// Request is a wish for ranks: how many, and on how many nodes.
type Request struct {
	// Ranks is the wished number of ranks of the whole job (-np); 0: not said.
	Ranks int
	// RanksFrom says in the user's words where Ranks came from, such as "-n 4"; ""
	// is "-np" with the number.
	RanksFrom string
	// PerNode is the wished number on each node.
	PerNode PerNode
	// Slots are the numbers of ranks that the nodes are meant to take, in the
	// machines' order. 0 or a missing entry: not said, which is one where other
	// nodes have a number.
	Slots []int
	// CoreSlots says that the slots of some node are as many as it has cores, which are to
	// be counted yet, or were.
	CoreSlots bool
	// SlotsFrom says in the user's words where Slots came from, such as
	// "-H localhost:4".
	SlotsFrom string
	// SlotsAllotted says that a resource manager gave the slots: to leave some of them
	// idle is the user's wish, and nothing to remark on.
	SlotsAllotted bool
	// MaxSlots are the numbers of ranks that the nodes must not exceed, in the
	// machines' order. 0 or a missing entry: no limit.
	MaxSlots []int
	// Oversubscribe allows more ranks than slots on several nodes. One node takes as
	// many ranks as are wished for either way, up to its MaxSlots.
	Oversubscribe bool
	// Visible are the variables that hide GPUs from the ranks, but of machines that have
	// their own.
	Visible Visibility

	// What follows are wishes where on its node a rank runs; they need the machines'
	// topologies. With none of them gorun's own policy decides where the topology
	// is known.

	MapBy       MapBy
	BindTo      BindTo
	RankBy      RankBy
	NUMABinding NUMABinding
	// CPUsPerRank is the number of CPUs (hardware threads) that each rank gets, in
	// whole cores; 0: not said.
	CPUsPerRank int
	// GPUsPerRank is the number of GPUs that each rank gets; 0: not said, which is
	// one where there are enough.
	GPUsPerRank int
	// GPUs are those that the job may use.
	GPUs GPUChoice
	// Isolate says that each rank sees its own GPUs alone. A GPU that is divided by
	// MIG counts as its parts then, and no rank may be without a GPU.
	Isolate bool
	// RankFile says for single ranks where they are; it excludes the other wishes.
	RankFile *RankFile
	// Hosts are the names of the machines, in their order, for rank files.
	Hosts []string
	// Counts are the numbers of ranks on the machines where they are decided already; nil:
	// Map decides.
	Counts []int
	// Others are the wishes for other ranks of the same job: what they need to know of a
	// machine this one needs, too.
	Others []Request
}

// any reports whether something holds for the request or for one of its others.
func (r Request) any(holds func(Request) bool) bool {
	return holds(r) || slices.ContainsFunc(r.Others, holds)
}

// AnyPlaces is Places of all the job's ranks.
func (r Request) AnyPlaces() bool { return r.any(Request.Places) }

// VisibilityOn is what hides GPUs of a machine from the ranks there.
func (r Request) VisibilityOn(m Machine) Visibility {
	if m.Hidden != nil {
		return *m.Hidden
	}
	return r.Visible
}

// Places reports whether there is a wish where on its node a rank runs, for which
// the machine's topology must be known.
func (r Request) Places() bool {
	return r.MapBy.Object != AnyObject || r.BindTo.Given && !r.BindTo.none() || r.RankBy != RankBy{} ||
		r.NUMABinding != "" || r.CPUsPerRank > 0 || r.RankFile != nil
}

// NeedsTopology reports whether the answer depends on what the machines consist
// of: a rank that is alone on its node is not bound to any part of it.
func (r Request) NeedsTopology() bool {
	return r.any(func(r Request) bool {
		// who uses a GPU stands with the rest of it
		if r.Places() || r.GPUs.Free || r.CoreSlots || r.PerNode.Kind == PerNodeCore {
			return true
		}
		alone := r.Ranks == 1 || r.PerNode.Kind == PerNodeFixed && r.PerNode.N == 1
		return !alone && !r.BindTo.none()
	})
}

// NeedsNICs reports whether the answer depends on the machines' network
// interfaces. Their drivers may take long to answer.
func (r Request) NeedsNICs() bool {
	return r.any(func(r Request) bool {
		return r.MapBy.Object == ByNIC || r.MapBy.Object == ByDistance || r.RankBy.Object == ByNIC ||
			r.RankBy.Object == ByDistance
	})
}

// NeedsGPUs reports whether the answer depends on the machines' GPUs; finding
// them costs time that other requests need not spend.
func (r Request) NeedsGPUs() bool {
	return r.any(func(r Request) bool {
		switch r.PerNode.Kind {
		case PerNodeAuto, PerNodeGPU:
			return true
		case PerNodeUnset:
			if r.Ranks == 0 && !r.CoreSlots && !r.hasSlots() && r.MapBy.PPR == 0 {
				return true
			}
		}
		return r.Isolate || r.GPUsPerRank > 0 || r.GPUs.given() || r.MapBy.Object == ByGPU
	})
}

// NeedsCPUs reports whether the answer depends on the machines' usable CPUs.
func (r Request) NeedsCPUs() bool {
	return r.CoreSlots || r.PerNode.Kind == PerNodeAuto || r.PerNode.Kind == PerNodeCPU || r.PerNode.Kind == PerNodeCore
}

// hasSlots reports whether some node was given a number of slots. The others
// have one each then, as `-H a,b:4` means one on a.
func (r Request) hasSlots() bool {
	return slices.ContainsFunc(r.Slots, func(n int) bool { return n > 0 })
}

// slots returns the slots of a node.
func (r Request) slots(node int) int {
	if node < len(r.Slots) && r.Slots[node] > 0 {
		return r.Slots[node]
	}
	return 1
}

// maxSlots is the number of ranks that a node must not exceed; 0: no limit.
func (r Request) maxSlots(node int) int {
	if node < len(r.MaxSlots) {
		return r.MaxSlots[node]
	}
	return 0
}

// nodeName is how messages call a machine.
func (r Request) nodeName(node int) string {
	if node < len(r.Hosts) && r.Hosts[node] != "" {
		return r.Hosts[node]
	}
	return numbered(node)
}

// numbered is a machine whose name is not known.
func numbered(node int) string { return fmt.Sprint("node ", node) }
