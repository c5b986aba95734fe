// Package nvml adds to a [placement.Machine] what only NVIDIA's management
// library knows of its GPUs: memory, NVLink, peer-to-peer access, MIG, and who
// uses them now.
//
// The library comes with the driver and is loaded when it is first needed. Every
// answer of it is optional: without driver, in a container that may not ask, or
// with a GPU that fell off the bus, what sysfs told stays, with a note. Programs
// that are built without cgo have the package too; there it adds nothing.
package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorun/placement"
)

// errNotTold is the answer to a question that this GPU, driver or container does
// not answer; nothing is wrong then.
var errNotTold = errors.New("not told")

// library is what is asked of NVIDIA's library; tests have their own. Its GPUs
// are counted in the order of their PCI addresses. Each method may return
// errNotTold.
type library interface {
	// Open loads the library; Close follows if that went well.
	Open() error
	Close()
	Count() (int, error)
	GPU(i int) (gpu, error)
}

// gpu is one GPU.
type gpu interface {
	PCI() (string, error) // as the kernel spells it
	UUID() (string, error)
	Name() (string, error)
	Memory() (int64, error) // bytes
	// CPUs are those near to the GPU, as a mask of at least as many bits as wished.
	CPUs(bits int) ([]uint64, error)
	MemoryNode() (int, error)
	Peer(other gpu) (placement.P2PStatus, error)
	// Link tells of an NVLink; those that a GPU has are counted from 0 without
	// holes, and errNotTold ends them.
	Link(i int) (link, error)
	MIG() ([]string, error)
	Processes() (int, error)
}

// link is an NVLink; of one that is not up there is nothing else to know.
type link struct {
	up       bool
	peer     string // PCI address at its other end
	toSwitch bool   // which is an NVSwitch
}

// maxLinks bounds the search for NVLinks.
const maxLinks = 64

// reader adds to a machine.
type reader struct {
	machine *placement.Machine
	gpus    []found
}

// found is a GPU of the library.
type found struct {
	gpu    gpu
	pci    string
	failed bool           // it is not asked any more
	peers  map[string]int // NVLinks by the GPU at the other end
	toward int            // NVLinks to switches
	down   int
}

// add asks the library.
func add(m *placement.Machine, lib library) {
	r := &reader{machine: m}
	if err := lib.Open(); err != nil {
		if r.hasNVIDIA() {
			r.note("NVIDIA's library tells nothing (%v): NVLinks, memory and users of the GPUs are not known", err)
		}
		return
	}
	defer lib.Close()
	n, err := lib.Count()
	if err != nil {
		r.note("NVIDIA's library tells nothing (%v): NVLinks, memory and users of the GPUs are not known", err)
		return
	}
	for i := range n {
		r.find(lib, i)
	}
	r.addMissing()
	for i := range r.gpus {
		r.describe(&r.gpus[i])
	}
	r.connect()
}

func (r *reader) note(format string, args ...any) {
	r.machine.Notes = append(r.machine.Notes, fmt.Sprintf(format, args...))
}

func (r *reader) hasNVIDIA() bool {
	return slices.ContainsFunc(r.machine.GPUs, func(g placement.GPU) bool { return g.Vendor == placement.NVIDIA })
}

// find asks for a GPU and its address, without which nothing can be said of it.
func (r *reader) find(lib library, i int) {
	g, err := lib.GPU(i)
	if err == nil {
		var pci string
		if pci, err = g.PCI(); err == nil {
			r.gpus = append(r.gpus, found{gpu: g, pci: pci, peers: map[string]int{}})
			return
		}
	}
	r.note("NVIDIA's library does not tell of its GPU %d: %v", i, err)
}

// addMissing adds GPUs of which the kernel's files do not tell, as under WSL.
func (r *reader) addMissing() {
	missing := false
	for _, f := range r.gpus {
		if r.of(f.pci) == nil {
			r.machine.GPUs = append(r.machine.GPUs, placement.GPU{PCI: f.pci, Vendor: placement.NVIDIA})
			missing = true
		}
	}
	if !missing {
		return
	}
	isNVIDIA := func(g placement.GPU) int {
		if g.Vendor == placement.NVIDIA {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(r.machine.GPUs, func(a, b placement.GPU) int {
		if c := isNVIDIA(a) - isNVIDIA(b); c != 0 || isNVIDIA(a) == 1 {
			return c
		}
		return cmp.Compare(a.PCI, b.PCI)
	})
	for i := range r.machine.GPUs {
		if isNVIDIA(r.machine.GPUs[i]) == 0 {
			r.machine.GPUs[i].Index = i
		}
	}
}

// of returns the machine's GPU at an address, or nil.
func (r *reader) of(pci string) *placement.GPU {
	i := slices.IndexFunc(r.machine.GPUs, func(g placement.GPU) bool { return g.Vendor == placement.NVIDIA && g.PCI == pci })
	if i < 0 {
		return nil
	}
	return &r.machine.GPUs[i]
}

// ask stores an answer. After a failure the GPU is not asked any more: a lost one
// can take seconds for each answer.
func ask[T any](r *reader, f *found, question func() (T, error), store func(T)) {
	if f.failed {
		return
	}
	answer, err := question()
	switch {
	case err == nil:
		store(answer)
	case !errors.Is(err, errNotTold):
		f.failed = true
		r.note("NVIDIA's library fails for the GPU %s (%v): what it has not told is not known", f.pci, err)
	}
}

// describe asks for what concerns one GPU alone.
func (r *reader) describe(f *found) {
	g := r.of(f.pci)
	ask(r, f, f.gpu.UUID, func(uuid string) { g.UUID = uuid })
	ask(r, f, f.gpu.Name, func(name string) { g.Name = name })
	ask(r, f, f.gpu.Memory, func(bytes int64) { g.Memory = bytes })
	ask(r, f, f.gpu.MIG, func(parts []string) { g.MIG = parts })
	ask(r, f, f.gpu.Processes, func(n int) { g.Used = n > 0 })
	if t := r.machine.Topology; t != nil {
		ask(r, f, f.gpu.MemoryNode, func(id int) {
			if node := t.Node(id); node != nil && node.CPUs.Len() == 0 {
				g.MemoryNode = id
			}
		})
		ask(r, f, func() ([]uint64, error) { return f.gpu.CPUs(bits(t)) }, func(mask []uint64) { r.place(g, placement.CPUSetOf(mask)) })
	}
	for i := range maxLinks {
		more := false
		ask(r, f, func() (link, error) { return f.gpu.Link(i) }, func(l link) {
			more = true
			f.count(l)
		})
		if !more {
			break
		}
	}
}

// bits is the size of a mask of all CPUs.
func bits(t *placement.Topology) int {
	if len(t.CPUs) == 0 {
		return 64
	}
	return t.CPUs[len(t.CPUs)-1].ID + 1
}

func (f *found) count(l link) {
	switch {
	case !l.up:
		f.down++
	case l.toSwitch:
		f.toward++
	default:
		f.peers[l.peer]++
	}
}

// place believes NVIDIA's affinity where the kernel's files say nothing or
// something else. It may be a part of what they say: some drivers leave out CPUs
// that a cgroup forbids.
func (r *reader) place(g *placement.GPU, near placement.CPUSet) {
	var home *placement.NUMANode
	nodes := r.machine.Topology.Nodes
	for i := range nodes {
		if meet(nodes[i].CPUs, near) {
			if home != nil {
				return // near to several nodes: that says nothing
			}
			home = &nodes[i]
		}
	}
	if home == nil {
		return
	}
	switch {
	case g.Bus == nil:
		g.Bus = &placement.Bus{Address: g.PCI}
	case g.Bus.Node == home.ID:
		return
	case g.Bus.Node >= 0:
		r.note("the kernel puts the GPU %s into NUMA node %d, NVIDIA's library into %d: the latter counts", g.PCI, g.Bus.Node, home.ID)
	}
	g.Bus.Node, g.Bus.Near = home.ID, home.CPUs
}

// meet reports whether two sets have a CPU in common.
func meet(a, b placement.CPUSet) bool {
	left := a.Len()
	for cpu := 0; left > 0; cpu++ {
		if a.Has(cpu) {
			if b.Has(cpu) {
				return true
			}
			left--
		}
	}
	return false
}

// connect fills in what concerns two GPUs: NVLinks, directly or through NVSwitch,
// where all GPUs reach each other and the one with fewer links counts; and
// peer-to-peer access.
func (r *reader) connect() {
	for i := range r.gpus {
		f := &r.gpus[i]
		counts := maps.Clone(f.peers)
		for j := range r.gpus {
			if other := &r.gpus[j]; i != j {
				if n := min(f.toward, other.toward); n > 0 {
					counts[other.pci] += n
				}
				r.askPeer(f, other)
			}
		}
		g := r.of(f.pci)
		for _, peer := range slices.Sorted(maps.Keys(counts)) {
			if r.of(peer) != nil {
				g.Links = append(g.Links, placement.Link{Peer: peer, Kind: "nvlink", Count: counts[peer]})
			}
		}
		if f.down > 0 && f.toward == 0 && len(f.peers) == 0 {
			r.note("the %d NVLinks of the GPU %s are down: on a machine with NVSwitch, is the fabric manager running?", f.down, f.pci)
		}
	}
}

func (r *reader) askPeer(f, other *found) {
	if other.failed {
		return
	}
	ask(r, f, func() (placement.P2PStatus, error) { return f.gpu.Peer(other.gpu) }, func(status placement.P2PStatus) {
		g := r.of(f.pci)
		g.Peers = append(g.Peers, placement.Peer{PCI: other.pci, Access: status})
	})
}
