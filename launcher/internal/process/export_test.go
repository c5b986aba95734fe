package process

import "gorun/launcher/internal/process/kernel"

// Use makes g start ranks in that way, as if the kernel had no newer one.
func (g *Group) Use(w kernel.Variant) { g.variant.Store(int32(w)) }

// CgroupTasks is the pids controller's limit as it is told for an EAGAIN.
func CgroupTasks(membership, root string) (name string, most, used int) {
	l := cgroupTasks(membership, root)
	return l.name, l.most, l.used
}

// SealEach is SealInherited on kernels without close_range.
var SealEach = sealEach

// BoundThreads bounds the number of g's threads, 0: not.
func (g *Group) BoundThreads(threads int) {
	if threads > 0 {
		g.threads = threads
	}
}
