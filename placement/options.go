package placement

import (
	"fmt"
	"strconv"
	"strings"
)

// Object is a kind of thing to which ranks are mapped or bound.
type Object uint8

// The kinds of objects, from the whole job down to a hardware thread, and devices.
const (
	AnyObject Object = iota // none was named
	BySlot                  // places for ranks, as hosts were given
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

// word is a name of an object in the words of an option. The first name of an object is the one that messages use.
type word struct {
	name   string
	object Object
}

// Of a machine's parts; the other launchers' names come behind gorun's.
var partWords = []word{
	{"package", ByPackage},
	{"socket", ByPackage},
	{"skt", ByPackage},
	{"numa", ByNUMA},
	{"l3cache", ByL3},
	{"l2cache", ByL2},
	{"core", ByCore},
	{"l1cache", ByCore}, // a first-level cache is a core's own
	{"hwthread", ByThread},
	{"thread", ByThread},
}

var (
	mapWords = append([]word{
		{"slot", BySlot},
		{"node", ByNode},
		{"gpu", ByGPU},
		{"nic", ByNIC},
		{"dist", ByDistance},
	}, partWords...)
	pprWords  = append([]word{{"node", ByNode}, {"gpu", ByGPU}, {"nic", ByNIC}}, partWords...)
	bindWords = append([]word{{"none", AnyObject}, {"board", ByBoard}, {"machine", ByBoard}}, partWords...)
	rankWords = append([]word{{"slot", BySlot}, {"node", ByNode}, {"gpu", ByGPU}, {"nic", ByNIC}}, partWords...)
)

// String returns gorun's word for the kind.
func (o Object) String() string {
	switch o {
	case AnyObject:
		return "none"
	case ByBoard:
		return "board"
	case ByRankFile:
		return "rankfile"
	}
	for _, w := range mapWords {
		if w.object == o {
			return w.name
		}
	}
	return fmt.Sprintf("object %d", o)
}

// nouns are what a sentence calls one object of a kind.
var nouns = map[Object]string{
	ByPackage: "package", ByNUMA: "NUMA node", ByL3: "L3 cache", ByL2: "L2 cache", ByCore: "core",
	ByThread: "hardware thread", ByGPU: "GPU", ByNIC: "NIC", ByNode: "node", ByBoard: "node", BySlot: "slot",
	ByDistance: "NUMA node",
}

// noun is what a sentence calls n objects of the kind.
func (o Object) noun(n int) string { return plural(n, nouns[o]) }

// part reports whether it is a part of a machine, which CPUs belong to.
func (o Object) part() bool { return o >= ByPackage && o <= ByThread }

// MapBy is the wish to which objects the ranks are mapped (--map-by). Its zero
// value is gorun's own policy.
type MapBy struct {
	Object Object
	// PPR is the number of ranks per object (ppr:N:OBJECT); 0: as many as there are.
	PPR int
	// Count is the number of objects that are one to the mapping, as Hydra writes it
	// ("core:2"); 0 is 1.
	Count int
	// PE is the number of CPUs of each rank (pe=N): cores, or hardware threads where
	// ranks are mapped or bound to those, or Threads says so. 0: not said.
	PE int
	// Threads has PE count hardware threads, and as many ranks find room on a core as it
	// has of them (mpirun's --use-hwthread-cpus).
	Threads bool
	// Span balances the ranks over the objects of all nodes, as if they were one.
	Span bool
	// Oversubscribe allows, and NoOversubscribe forbids, more ranks than CPUs or
	// slots. With neither gorun allows it and does not bind.
	Oversubscribe, NoOversubscribe bool
	// Device is what "dist" is measured from: the name of a NIC, or "gpu"; "" is the
	// first device that is there.
	Device string
	// From is the wish in the user's words; "" is --map-by with its value.
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

// BindTo is the wish to what the ranks are bound (--bind-to). Its zero value is
// what goes with the mapping.
type BindTo struct {
	// Given says that there was a wish; without Object and Lists it is "none".
	Given  bool
	Object Object
	// Count is the number of objects of each rank, as Hydra writes it ("core:2"); 0 is 1.
	Count int
	// OverloadAllowed allows several ranks on one CPU.
	OverloadAllowed bool
	// IfSupported says that a system which cannot bind is no error.
	IfSupported bool
	// Lists are CPUs by their numbers in the kernel, one list for each local rank, as
	// Hydra writes them ("user:0+2,1+4"). They are used again from the first when there are more ranks.
	Lists []CPUSet
	From  string // as in MapBy
}

func (b BindTo) String() string {
	if b.From != "" {
		return b.From
	}
	return "--bind-to " + b.Object.String()
}

// none reports whether it is the wish for ranks that are not bound.
func (b BindTo) none() bool {
	return b.Given && (b.Object == AnyObject || b.Object == ByBoard) && len(b.Lists) == 0
}

// RankOrder is the way in which ranks are counted over objects.
type RankOrder uint8

const (
	// RoundRobin gives each object of a node a rank, then the next to each, and then
	// goes on to the next node.
	RoundRobin RankOrder = iota
	// RankSpan goes round the objects of all nodes.
	RankSpan
	// RankFill gives an object all its ranks before it goes on to the next.
	RankFill
)

// RankBy is the wish how ranks are numbered (--rank-by). Its zero value is what
// goes with the mapping.
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

// NUMABinding is torchrun's wish where the ranks run (--numa-binding).
type NUMABinding string

// The values of --numa-binding.
const (
	NUMANodeBinding   NUMABinding = "node"         // the CPUs of the GPU's NUMA node
	NUMASocketBinding NUMABinding = "socket"       // those of all NUMA nodes of its package
	NUMAExclusive     NUMABinding = "exclusive"    // an equal share of the node's cores for each of its GPUs
	NUMACoreComplex   NUMABinding = "core-complex" // an L3 cache's CPUs for each GPU
)

// GPUChoice is the wish which GPUs the job uses (--gpus). Its zero value is all visible ones.
type GPUChoice struct {
	Indices []int  // by GPU.Index, in the order of the ranks
	Free    bool   // those that no process uses
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
