// Package nvml asks NVIDIA's management library for what only it knows of the
// GPUs: memory, NVLink, peer-to-peer access, MIG, and who uses them now.
//
// The library comes with the driver and is loaded when it is first needed. Every
// answer of it is optional: without driver, in a container that may not ask, or
// with a GPU that fell off the bus, what sysfs told stays, with a note. Programs
// that are built without cgo have the package too; there it knows nothing.
//
// The library may hang or crash, and the program with it: package worker asks it
// in a process of its own, whose program links this package.
package nvml

import (
	"errors"
	"fmt"

	"gorun/placement"
	"gorun/placement/gpufacts"
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
	// CUDA is the newest version that the driver serves: "12.8".
	CUDA() (string, error)
}

// gpu is one GPU.
type gpu interface {
	PCI() (string, error) // as the kernel spells it
	UUID() (string, error)
	Name() (string, error)
	Memory() (total, taken int64, err error) // bytes
	Busy() (int, error)                      // percent of the last moment
	// CPUs are those near to the GPU, as a mask of at least as many bits as wished.
	CPUs(bits int) ([]uint64, error)
	MemoryNode() (int, error)
	Peer(other gpu) (placement.P2PStatus, error)
	// Link tells of an NVLink; those that a GPU has are counted from 0 without
	// holes, and errNotTold ends them.
	Link(i int) (link, error)
	MIG() ([]string, error)
	Processes() ([]int, error) // their ids
	// Health tells what is told of it; errNotTold: nothing.
	Health() (gpufacts.Health, error)
}

// link is an NVLink; of one that is not up there is nothing else to know.
type link struct {
	up       bool
	peer     string // PCI address at its other end
	toSwitch bool   // which is an NVSwitch
}

// maxLinks bounds the search for NVLinks.
const maxLinks = 64

// maxCPUs bounds the masks of CPUs: more than a kernel of today is built for.
const maxCPUs = 8192

// reader collects what the library tells.
type reader struct {
	told gpufacts.Facts
	gpus []found
}

// found is a GPU of the library.
type found struct {
	gpu    gpu
	failed bool // it is not asked any more
	told   *gpufacts.GPU
}

// ask asks a library for everything.
func ask(lib library) gpufacts.Facts {
	r := &reader{}
	if err := lib.Open(); err != nil {
		return gpufacts.Facts{Error: err.Error()}
	}
	defer lib.Close()
	n, err := lib.Count()
	if err != nil {
		r.note("NVIDIA's library does not tell how many GPUs there are: %v", err)
		return r.told
	}
	r.told.CUDA, _ = lib.CUDA() // an old driver does not tell
	for i := range n {
		r.find(lib, i)
	}
	for i := range r.gpus {
		r.describe(&r.gpus[i])
	}
	for i := range r.gpus {
		for j := range r.gpus {
			if i != j {
				r.askPeer(&r.gpus[i], &r.gpus[j])
			}
		}
	}
	for _, f := range r.gpus {
		r.told.GPUs = append(r.told.GPUs, *f.told)
	}
	return r.told
}

func (r *reader) note(format string, args ...any) {
	r.told.Notes = append(r.told.Notes, fmt.Sprintf(format, args...))
}

// find asks for a GPU and its address, without which nothing can be said of it.
func (r *reader) find(lib library, i int) {
	g, err := lib.GPU(i)
	if err == nil {
		var pci string
		if pci, err = g.PCI(); err == nil {
			r.gpus = append(r.gpus, found{gpu: g, told: &gpufacts.GPU{PCI: pci}})
			return
		}
	}
	r.note("NVIDIA's library does not tell of its GPU %d: %v", i, err)
}

// question stores an answer. After a failure the GPU is not asked any more: a lost
// one can take seconds for each answer.
func question[T any](r *reader, f *found, put func() (T, error), store func(T)) {
	if f.failed {
		return
	}
	answer, err := put()
	switch {
	case err == nil:
		store(answer)
	case !errors.Is(err, errNotTold):
		f.failed, f.told.Failed = true, true
		r.note("NVIDIA's library fails for the GPU %s (%v): what it has not told is not known", f.told.PCI, err)
	}
}

// memory is a GPU's in bytes.
type memory struct{ total, taken int64 }

// describe asks for what concerns one GPU alone.
func (r *reader) describe(f *found) {
	g := f.told
	question(r, f, f.gpu.UUID, func(uuid string) { g.UUID = uuid })
	question(r, f, f.gpu.Name, func(name string) { g.Name = name })
	question(r, f, func() (memory, error) {
		total, taken, err := f.gpu.Memory()
		return memory{total, taken}, err
	}, func(m memory) { g.Memory, g.Taken = m.total, &m.taken })
	question(r, f, f.gpu.Busy, func(percent int) { g.Busy = &percent })
	question(r, f, f.gpu.MIG, func(parts []string) { g.MIG = parts })
	question(r, f, f.gpu.Processes, func(ids []int) { g.Used, g.Processes = new(len(ids) > 0), ids })
	question(r, f, f.gpu.MemoryNode, func(id int) { g.MemoryNode = &id })
	question(r, f, func() ([]uint64, error) {
		return f.gpu.CPUs(maxCPUs)
	}, func(mask []uint64) { g.Near = placement.CPUSetOf(mask) })
	for i := range maxLinks {
		more := false
		question(r, f, func() (link, error) { return f.gpu.Link(i) }, func(l link) {
			more = true
			count(g, l)
		})
		if !more {
			break
		}
	}
	question(r, f, f.gpu.Health, func(h gpufacts.Health) { g.Health = &h })
}

func count(g *gpufacts.GPU, l link) {
	switch {
	case !l.up:
		g.Down++
	case l.toSwitch:
		g.Switched++
	default:
		if g.Links == nil {
			g.Links = map[string]int{}
		}
		g.Links[l.peer]++
	}
}

func (r *reader) askPeer(f, other *found) {
	if other.failed {
		return
	}
	question(r, f, func() (placement.P2PStatus, error) { return f.gpu.Peer(other.gpu) }, func(status placement.P2PStatus) {
		f.told.Peers = append(f.told.Peers, placement.Peer{PCI: other.told.PCI, Access: status})
	})
}
