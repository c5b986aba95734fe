package nccl

// Host is what of a host, beside its CPUs, GPUs and network interfaces, the right
// settings of NCCL and RCCL depend on. The zero value is a host of which nothing is
// known.
type Host struct {
	// Conf are the administrator's and the user's files of settings, those that count
	// first standing first.
	Conf []ConfFile
	// GPUs says that there is something that GPUs of NVIDIA or AMD need; what stands
	// below was looked for only then.
	GPUs bool
	// Library is the version of NCCL or RCCL that ranks are likely to load ("2.27.3"),
	// as the names of its files say; "": not known.
	Library string
	// OnlyLoopback says that no network interface but the loopback is up.
	OnlyLoopback bool
	// Container is what the host is, by its own signs ("Docker"); "" is none.
	Container string
	// NoMemoryPolicy says that set_mempolicy is forbidden, as in Docker's default
	// profile.
	NoMemoryPolicy bool
	// NoVerbs says that there are RDMA devices, but none of the files by which programs
	// use them (/dev/infiniband/uverbs0) can be opened; NoVerbsWhy is the last error.
	NoVerbs    bool
	NoVerbsWhy string
	// Memlock is how much memory ranks may lock, in bytes; -1: no limit.
	Memlock int64
	// Shm is the size of /dev/shm in bytes, -1 where there is none.
	Shm int64
	// EndlessStack says that the limit of the stack is "unlimited".
	EndlessStack bool
	// Cloud is who runs the virtual machine ("Amazon EC2"), "" for nobody known.
	Cloud string
	// ROCm is the version of AMD's software ("6.4.1"), "" where it is not known.
	ROCm string
	// GFX are the kinds of AMD's GPUs ("gfx90a"), each once.
	GFX []string
}

// ConfFile is a file of settings as it is.
type ConfFile struct {
	Path string
	Text string
}
