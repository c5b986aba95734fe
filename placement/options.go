package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Object is a kind of object that ranks are mapped or bound to.
type Object uint8

// The kinds of objects: from the whole job down to a hardware thread, then devices.
const (
	AnyObject Object = iota // not given
	BySlot                  // slots of the hosts
	ByNode
	ByBoard
	ByPackage
	ByNUMA
	ByL3
	ByL2
	ByCore
	ByThread
	ByGPU
	ByNIC
	ByDistance // NUMA nodes, the nearest to a device first
	ByRankFile
)

// word is a spelling of an object in option values. Messages use the first spelling of an object.
type word struct {
	name   string
	object Object
}

// Parts of a machine; the spellings of other launchers follow gorun's.
var partWords = []word{
	{"package", ByPackage},
	{"socket", ByPackage},
	{"skt", ByPackage},
	{"numa", ByNUMA},
	{"l3cache", ByL3},
	{"l2cache", ByL2},
	{"core", ByCore},
	{"l1cache", ByCore}, // each core has its own L1 cache
	{"hwthread", ByThread},
	{"thread", ByThread},
}

func mapWords() []word { return slices.Insert(rankWords(), 4, word{"dist", ByDistance}) }
func pprWords() []word { return rankWords()[1:] }

func rankWords() []word {
	return append([]word{{"slot", BySlot}, {"node", ByNode}, {"gpu", ByGPU}, {"nic", ByNIC}}, partWords...)
}

func bindWords() []word {
	return append([]word{{"none", AnyObject}, {"board", ByBoard}, {"machine", ByBoard}}, partWords...)
}

// String returns gorun's spelling of the kind.
func (o Object) String() string {
	switch o {
	case AnyObject:
		return "none"
	case ByBoard:
		return "board"
	case ByRankFile:
		return "rankfile"
	}
	for _, w := range mapWords() {
		if w.object == o {
			return w.name
		}
	}
	return fmt.Sprintf("object %d", o)
}

// nouns name one object of a kind in a sentence.
var nouns = [ByRankFile + 1]string{
	ByPackage: "package", ByNUMA: "NUMA node", ByL3: "L3 cache", ByL2: "L2 cache", ByCore: "core",
	ByThread: "hardware thread", ByGPU: "GPU", ByNIC: "NIC", ByNode: "node", ByBoard: "node", BySlot: "slot",
	ByDistance: "NUMA node",
}

func (o Object) noun(n int) string { return plural(n, nouns[o]) }

// part reports whether objects of the kind are parts of a machine that contain CPUs.
func (o Object) part() bool { return o >= ByPackage && o <= ByThread }

// MapBy is the value of --map-by: the objects that ranks are mapped to. Its zero value selects
// gorun's own policy.
type MapBy struct {
	Object Object
	// PPR is the number of ranks per object (ppr:N:OBJECT); 0 means no limit.
	PPR int
	// Count is the number of objects that are mapped as one, in Hydra's notation ("core:2"); 0
	// means 1.
	Count int
	// PE is the number of CPUs for each rank (pe=N), 0 if not given: hardware threads if ranks are
	// mapped or bound to these or Threads is set, otherwise cores.
	PE int
	// Threads makes PE count hardware threads, and each hardware thread of a core has room for a
	// rank (mpirun's --use-hwthread-cpus).
	Threads bool
	// Span balances the ranks over the objects of all nodes as if they were one node.
	Span bool
	// Oversubscribe allows, and NoOversubscribe forbids, more ranks than CPUs or slots. With
	// neither, gorun allows it and leaves the ranks unbound.
	Oversubscribe, NoOversubscribe bool
	// Device is the device that "dist" measures from: the name of a NIC, or "gpu"; empty means the
	// first device.
	Device string
	// From is the source of the value for messages; empty means --map-by with its value.
	From string
}

func (m MapBy) String() string {
	if m.From != "" {
		return m.From
	}
	return "--map-by " + m.value()
}

func (m MapBy) value() string {
	value := m.Object.String()
	if m.Object == AnyObject {
		value = ""
	}
	if m.PPR > 0 {
		value = fmt.Sprintf("ppr:%d:%s", m.PPR, value)
	}
	for _, modifier := range []struct {
		set  bool
		text string
	}{
		{m.Device != "", m.Device},
		{m.Count > 0, strconv.Itoa(m.Count)},
		{m.PE > 0, fmt.Sprintf("pe=%d", m.PE)},
		{m.Span, "span"},
		{m.Oversubscribe, "oversubscribe"},
		{m.NoOversubscribe, "nooversubscribe"},
	} {
		if modifier.set {
			value += ":" + modifier.text
		}
	}
	return value
}

// BindTo is the value of --bind-to: the objects that ranks are bound to. Its zero value follows the
// mapping.
type BindTo struct {
	// Given reports whether there is a value; without Object and Lists it is the word none.
	Given  bool
	Object Object
	// Count is the number of objects for each rank, in Hydra's notation ("core:2"); 0 means 1.
	Count int
	// OverloadAllowed lets several ranks be bound to one CPU.
	OverloadAllowed bool
	// IfSupported accepts a system that cannot bind processes.
	IfSupported bool
	// Lists are sets of CPUs by kernel number, one for each local rank, in Hydra's notation
	// ("user:0+2,1+4"). They repeat if there are more ranks.
	Lists []CPUSet
	From  string // as in MapBy
}

func (b BindTo) String() string {
	if b.From != "" {
		return b.From
	}
	return "--bind-to " + b.Object.String()
}

// none reports whether the value is the word none.
func (b BindTo) none() bool {
	return b.Given && (b.Object == AnyObject || b.Object == ByBoard) && len(b.Lists) == 0
}

// RankOrder is the order in which ranks are numbered over objects.
type RankOrder uint8

const (
	// RoundRobin gives each object of a node one rank in turn, node by node.
	RoundRobin RankOrder = iota
	// RankSpan gives each object of all nodes one rank in turn.
	RankSpan
	// RankFill gives an object all its ranks before the next object gets any.
	RankFill
)

// RankBy is the value of --rank-by: the numbering of ranks. Its zero value follows the mapping.
type RankBy struct {
	Object Object // AnyObject: those of the mapping
	Order  RankOrder
	From   string // as in MapBy
}

func (r RankBy) String() string {
	if r.From != "" {
		return r.From
	}
	value := r.Object.String()
	if r.Object == AnyObject {
		value = ""
	}
	switch r.Order {
	case RankSpan:
		value += ":span"
	case RankFill:
		value += ":fill"
	}
	return "--rank-by " + strings.TrimPrefix(value, ":")
}

// NUMABinding is the value of torchrun's --numa-binding.
type NUMABinding string

// The values of --numa-binding.
const (
	NUMANodeBinding   NUMABinding = "node"         // the CPUs of the GPU's NUMA node
	NUMASocketBinding NUMABinding = "socket"       // those of all NUMA nodes of its package
	NUMAExclusive     NUMABinding = "exclusive"    // an equal share of the node's cores for each of its GPUs
	NUMACoreComplex   NUMABinding = "core-complex" // an L3 cache's CPUs for each GPU
)

// GPUChoice is the value of --gpus: the GPUs that the job uses. Its zero value selects all visible
// ones.
type GPUChoice struct {
	Indices []int  // values of GPU.Index, in rank order
	Free    bool   // only GPUs that no process uses
	From    string // as in MapBy
}

func (c GPUChoice) given() bool { return c.Free || len(c.Indices) > 0 }

func (c GPUChoice) String() string {
	switch {
	case c.From != "":
		return c.From
	case c.Free:
		return "--gpus free"
	}
	var list []string
	for _, index := range c.Indices {
		list = append(list, fmt.Sprint(index))
	}
	return "--gpus " + strings.Join(list, ",")
}
