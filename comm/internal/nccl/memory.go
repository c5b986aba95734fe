//go:build cgo

package nccl

import "slices"

// memory is what was allocated on GPUs: disjoint ranges, by address. It tells a pointer to a GPU's memory from one to
// the host's.
type memory []allocation

type allocation struct {
	at     uintptr
	bytes  uintptr
	device int
}

// search returns where the allocation that holds at is, or would stand.
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

// add notes an allocation, remove forgets the one that begins at an address.
func (m *memory) add(a allocation) {
	index, _ := m.search(a.at)
	*m = slices.Insert(*m, index, a)
}

func (m *memory) remove(at uintptr) {
	if index, found := m.search(at); found {
		*m = slices.Delete(*m, index, index+1)
	}
}

// room is how many bytes lie from at to the end of its allocation, and on which GPU; ok is false for the host's memory.
func (m memory) room(at uintptr) (bytes uintptr, device int, ok bool) {
	index, found := m.search(at)
	if !found {
		return 0, 0, false
	}
	return m[index].at + m[index].bytes - at, m[index].device, true
}
