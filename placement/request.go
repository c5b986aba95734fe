package placement

import (
	"fmt"
	"slices"
)

// PerNodeKind selects how the number of ranks per node is determined.
type PerNodeKind uint8

const (
	// PerNodeUnset: no number was given.
	PerNodeUnset PerNodeKind = iota
	// PerNodeFixed: PerNode.N ranks.
	PerNodeFixed
	// PerNodeAuto: one per GPU, else one per usable CPU.
	PerNodeAuto
	// PerNodeGPU: one per GPU; a node without GPUs is an error.
	PerNodeGPU
	// PerNodeCPU: one per usable CPU.
	PerNodeCPU
	// PerNodeCore: one per core that has a usable CPU, as Open MPI counts slots.
	PerNodeCore
	// PerNodeDevice: one per PerNode.Device. Only PyTorch on the node can count these.
	PerNodeDevice
)

// PerNode is the requested number of ranks per node (--nproc-per-node).
type PerNode struct {
	Kind PerNodeKind
	N    int // for PerNodeFixed
	// Device is PyTorch's name for an accelerator ("xpu", "npu"), with PerNodeDevice.
	Device string
	From   string // source, such as "PET_NPROC_PER_NODE=4"; empty means --nproc-per-node
}

// Request describes the ranks that a job asks for: how many, on how many nodes, and where on them.
type Request struct {
	// Ranks is the requested number of ranks in the whole job (-np); 0 if not given.
	Ranks int
	// RanksFrom is the source of Ranks for messages, such as "-n 4"; empty means "-np" with the
	// number.
	RanksFrom string
	// PerNode is the requested number of ranks on each node.
	PerNode PerNode
	// Slots are the numbers of slots of the nodes, in the order of the machines. 0 or a missing
	// entry means not given: 1 if other nodes have a number.
	Slots []int
	// CoreSlots reports whether some node has as many slots as cores, counted already or not.
	CoreSlots bool
	// SlotsFrom is the source of Slots for messages, such as "-H localhost:4".
	SlotsFrom string
	// SlotsAllotted reports whether a resource manager allotted the slots. Idle slots are then
	// intended and get no note.
	SlotsAllotted bool
	// MaxSlots are the largest numbers of ranks that the nodes accept, in the order of the
	// machines. 0 or a missing entry means no limit.
	MaxSlots []int
	// Oversubscribe allows more ranks than slots on several nodes. A single node accepts any number
	// of ranks up to its MaxSlots either way.
	Oversubscribe bool
	// Visible are the variables that hide GPUs from the ranks, except on machines that have their
	// own (Machine.Hidden).
	Visible Visibility

	// The following fields say where on its node a rank runs and require the topology of the
	// machines. If all are unset, gorun's own policy decides on machines whose topology is known.

	MapBy       MapBy
	BindTo      BindTo
	RankBy      RankBy
	NUMABinding NUMABinding
	// CPUsPerRank is the number of CPUs (hardware threads) for each rank, in whole cores; 0 if not
	// given.
	CPUsPerRank int
	// GPUsPerRank is the number of GPUs for each rank; 0 if not given, which means 1 if there are
	// enough.
	GPUsPerRank int
	// GPUs selects the GPUs that the job may use.
	GPUs GPUChoice
	// Isolate limits each rank to its own GPUs. The MIG instances of a divided GPU then count as
	// GPUs, and every rank must have one.
	Isolate bool
	// RankFile gives the placement of single ranks; it excludes the other placement options.
	RankFile *RankFile
	// Hosts are the names of the machines, in order, for rank files and messages.
	Hosts []string
	// Counts are the numbers of ranks on the machines if they are already decided; nil lets Map
	// decide.
	Counts []int
	// Others are the requests for other ranks of the same job. The Needs methods cover them too.
	Others []Request
}

// any reports whether holds is true of r or of one of its others.
func (r Request) any(holds func(Request) bool) bool {
	return holds(r) || slices.ContainsFunc(r.Others, holds)
}

// AnyPlaces reports whether [Request.Places] holds for any ranks of the job.
func (r Request) AnyPlaces() bool { return r.any(Request.Places) }

// VisibilityOn returns the variables that hide GPUs of m from its ranks.
func (r Request) VisibilityOn(m Machine) Visibility {
	if m.Hidden != nil {
		return *m.Hidden
	}
	return r.Visible
}

// Places reports whether the request says where on its node a rank runs, which requires the
// machine's topology.
func (r Request) Places() bool {
	return r.MapBy.Object != AnyObject || r.BindTo.Given && !r.BindTo.none() || r.RankBy != RankBy{} ||
		r.NUMABinding != "" || r.CPUsPerRank > 0 || r.RankFile != nil
}

// NeedsTopology reports whether the layout depends on the topology of the machines. It does not for
// a rank that is alone on its node: such a rank is not bound.
func (r Request) NeedsTopology() bool {
	return r.any(func(r Request) bool {
		// GPU.Used, which --gpus free needs, is read with the topology.
		if r.Places() || r.GPUs.Free || r.CoreSlots || r.PerNode.Kind == PerNodeCore {
			return true
		}
		alone := r.Ranks == 1 || r.PerNode.Kind == PerNodeFixed && r.PerNode.N == 1
		return !alone && !r.BindTo.none()
	})
}

// NeedsNICs reports whether the layout depends on the network interfaces of the machines. Their
// drivers may answer slowly.
func (r Request) NeedsNICs() bool {
	return r.any(func(r Request) bool {
		return r.MapBy.Object == ByNIC || r.MapBy.Object == ByDistance || r.RankBy.Object == ByNIC ||
			r.RankBy.Object == ByDistance
	})
}

// NeedsGPUs reports whether the layout depends on the GPUs of the machines. Finding them costs time
// that other requests can save.
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

// NeedsCPUs reports whether the layout depends on the usable CPUs of the machines.
func (r Request) NeedsCPUs() bool {
	return r.CoreSlots || r.PerNode.Kind == PerNodeAuto || r.PerNode.Kind == PerNodeCPU || r.PerNode.Kind == PerNodeCore
}

// hasSlots reports whether some node has a number of slots. The other nodes then have one slot
// each: `-H a,b:4` means one on a.
func (r Request) hasSlots() bool {
	return slices.ContainsFunc(r.Slots, func(n int) bool { return n > 0 })
}

func (r Request) slots(node int) int {
	if node < len(r.Slots) && r.Slots[node] > 0 {
		return r.Slots[node]
	}
	return 1
}

// maxSlots returns the largest number of ranks that a node accepts; 0 means no limit.
func (r Request) maxSlots(node int) int {
	if node < len(r.MaxSlots) {
		return r.MaxSlots[node]
	}
	return 0
}

func (r Request) nodeName(node int) string {
	if node < len(r.Hosts) && r.Hosts[node] != "" {
		return r.Hosts[node]
	}
	return numbered(node)
}

func numbered(node int) string { return fmt.Sprint("node ", node) }
