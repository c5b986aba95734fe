package process

// UseClone makes g start ranks as on a kernel without clone3.
func (g *Group) UseClone() { g.legacy.Store(true) }

// CgroupTasks is the pids controller's limit as it is told for an EAGAIN.
func CgroupTasks(membership, root string) (name string, most, used int) {
	l := cgroupTasks(membership, root)
	return l.name, l.most, l.used
}

// SealEach is SealInherited on kernels without close_range.
var SealEach = sealEach
