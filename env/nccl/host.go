package nccl

// Host describes the parts of a host that affect the settings of NCCL and RCCL, except CPUs, GPUs and network
// interfaces. The zero value is an unknown host.
type Host struct {
	// Conf are the administrator's and the user's configuration files, in order of precedence.
	Conf []ConfFile
	// GPUs reports that the host has NVIDIA or AMD GPUs or their drivers. Without them the following fields
	// are not set.
	GPUs bool
	// Library is the version of NCCL or RCCL that ranks will probably load ("2.27.3"), taken from its file
	// names; "" if unknown.
	Library string
	// Torch is the version of the ranks' PyTorch ("2.15.0"), taken from its file names; "" if unknown.
	Torch string
	// OnlyLoopback reports that only the loopback interface is up.
	OnlyLoopback bool
	// Container is the kind of container ("Docker"), or "" outside one.
	Container string
	// NoMemoryPolicy reports that set_mempolicy is forbidden, as in Docker's default profile.
	NoMemoryPolicy bool
	// NoVerbs reports that there are RDMA devices, but that none of their device files
	// (/dev/infiniband/uverbs0) can be opened. NoVerbsWhy is the last error.
	NoVerbs    bool
	NoVerbsWhy string
	// Memlock is the limit on locked memory in bytes; -1 means no limit.
	Memlock int64
	// Shm is the size of /dev/shm in bytes, or -1 if it does not exist.
	Shm int64
	// EndlessStack reports that the stack size limit is "unlimited".
	EndlessStack bool
	// Cloud is the provider of the virtual machine ("Amazon EC2"), or "" if unknown.
	Cloud string
	// ROCm is the version of ROCm ("6.4.1"), or "" if unknown.
	ROCm string
	// GFX are the distinct AMD GPU targets ("gfx90a").
	GFX []string
}

// ConfFile is a configuration file with its content.
type ConfFile struct {
	Path string
	Text string
}

// Settings returns the assignments in the file, in order.
func (f ConfFile) Settings() []Assignment { return Parse(FromConf, f.Path, []byte(f.Text)) }
