package process

import "gorun/launcher/internal/process/kernel"

// Use makes g start ranks in one way, as if the kernel supported no newer one.
func (g *Group) Use(w kernel.Variant) { g.variant.Store(int32(w)) }

// CgroupTasks returns the limit of the pids controller that explains an EAGAIN.
func CgroupTasks(membership, root string) (name string, most, used int) {
	l := cgroupTasks(membership, root)
	return l.name, l.most, l.used
}

// SealEach replaces SealInherited on kernels without close_range.
var SealEach = sealEach

// BoundThreads limits the number of g's threads; 0 means no limit.
func (g *Group) BoundThreads(threads int) {
	if threads > 0 {
		g.threads = threads
	}
}
