//go:build cgo

package nccl

import "slices"

// memory contains the allocations on GPUs: disjoint ranges, sorted by address. It separates pointers to GPU memory from
// pointers to host memory.
type memory []allocation

type allocation struct {
	at     uintptr
	bytes  uintptr
	device int
}

// search returns the index of the allocation that contains at, or the index to insert it at.
func (m memory) search(at uintptr) (index int, found bool) {
	index, found = slices.BinarySearchFunc(m, at, func(a allocation, at uintptr) int {
		switch {
		case at < a.at:
			return 1
		case at >= a.at+a.bytes:
			return -1
		}
		return 0
	})
	return index, found
}

// add records an allocation. remove deletes the one that starts at an address.
func (m *memory) add(a allocation) {
	index, _ := m.search(a.at)
	*m = slices.Insert(*m, index, a)
}

func (m *memory) remove(at uintptr) {
	if index, found := m.search(at); found {
		*m = slices.Delete(*m, index, index+1)
	}
}

// room returns the number of bytes from at to the end of its allocation, and the GPU. ok is false for host memory.
func (m memory) room(at uintptr) (bytes uintptr, device int, ok bool) {
	index, found := m.search(at)
	if !found {
		return 0, 0, false
	}
	return m[index].at + m[index].bytes - at, m[index].device, true
}
