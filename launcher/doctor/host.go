package doctor

import (
	"gorun/placement"
	"gorun/placement/gpufacts"
)

// Host is what was found on one host. What could not be read has its zero value, and no
// check speaks of it; sizes are bytes.
type Host struct {
	Name     string `json:"host"` // as the user named it
	Here     bool   `json:"here,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Boot is the kernel's random name for its present run: two hosts that have the same
	// one are one machine.
	Boot       string `json:"boot,omitempty"`
	Gorun      string `json:"gorun,omitempty"` // version
	Executable string `json:"executable,omitempty"`
	UID        int    `json:"uid"`
	User       string `json:"user,omitempty"`

	Kernel       string `json:"kernel,omitempty"`       // "6.8.0-45-generic"
	Architecture string `json:"architecture,omitempty"` // "x86_64"
	CPUVendor    string `json:"cpu_vendor,omitempty"`   // "AuthenticAMD"
	// Uptime is in seconds.
	Uptime float64 `json:"uptime,omitempty"`
	// Portable says that it is a laptop, where saving power is right.
	Portable bool `json:"portable,omitempty"`
	// Container is by what it was known: "docker"; "": none.
	Container string `json:"container,omitempty"`
	// NoSys says that /sys is not mounted, or empty.
	NoSys bool `json:"no_sys,omitempty"`

	// Limits are those that ranks start with, by their names in limits.conf.
	Limits map[string]Limit `json:"limits,omitempty"`
	// Sysctls are by path below /proc/sys: "kernel/shmmax".
	Sysctls   map[string]string `json:"sysctls,omitempty"`
	Memory    Memory            `json:"memory"`
	Cgroup    Cgroup            `json:"cgroup"`
	Shm       *FileSystem       `json:"shm,omitempty"` // /dev/shm; nil: not looked at
	DiskSpace []DiskSpace       `json:"rooms,omitempty"`
	// Denied are system calls that a probe was refused, with the reason: "set_mempolicy".
	Denied map[string]string `json:"denied,omitempty"`
	// RemoveIPC is what systemd-logind is told: "yes", "no"; "" where nothing says it, or
	// nothing runs it.
	RemoveIPC string `json:"remove_ipc,omitempty"`
	Lingers   bool   `json:"lingers,omitempty"` // the user's things stay when he leaves

	Clock   *Clock   `json:"clock,omitempty"`
	Names   *Names   `json:"names,omitempty"`
	Program *Program `json:"program,omitempty"`
	Python  Python   `json:"python,omitzero"`
	// Libraries are those of a fabric that are there, by name, with their path: "libucp".
	Libraries map[string]string `json:"libraries"`

	Machine    placement.Machine `json:"machine"`
	NVIDIA     *NVIDIA           `json:"nvidia,omitempty"`
	AMD        *AMD              `json:"amd,omitempty"`
	Driverless []PCIDevice       `json:"driverless,omitempty"` // GPUs without a driver
	Bridges    []Bridge          `json:"bridges,omitempty"`    // PCI bridges above GPUs
	// IOMMU are the kinds of IOMMU groups that GPUs and RDMA adapters are in, by PCI address:
	// "identity", "DMA", "DMA-FQ".
	IOMMU      map[string]string `json:"iommu,omitempty"`
	RDMA       []Port            `json:"rdma,omitempty"`
	Interfaces []Interface       `json:"interfaces,omitempty"`
	Governors  map[string]int    `json:"governors,omitempty"` // CPUs by their frequency governor
	Governing  string            `json:"governing,omitempty"` // the driver of frequencies: "intel_pstate"
	HugePages  HugePages         `json:"huge_pages"`

	ProcessesKnown bool      `json:"processes_known,omitempty"` // they were looked at in time
	Orphans        []Process `json:"leftovers,omitempty"`       // of jobs whose launcher is gone
	ShmFiles       []ShmFile `json:"shm_files,omitempty"`       // that nobody uses
	KernelXids     []Xid     `json:"kernel_xids,omitempty"`     // NVIDIA's errors in the kernel's log

	// SettingsFiles are NCCL's or RCCL's own there, Environ its agent's environment where that
	// is another than what ranks inherit. Neither is sent on: an environment has secrets.
	SettingsFiles []SettingsFile `json:"-"`
	Environ       []string       `json:"-"`
	// Notes are findings of others about this host, as on its environment.
	Notes []Finding `json:"remarks,omitempty"`
	// Unknown says what was not looked at, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// ProgramBytes are those of a program that are compared.
const ProgramBytes = 1 << 30

// Limit is a limit of what ranks may take, -1: none.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Memory is /proc/meminfo.
type Memory struct {
	Total       int64 `json:"total"`
	Available   int64 `json:"available"`
	CommitLimit int64 `json:"commit_limit,omitempty"`
	Committed   int64 `json:"committed,omitempty"`
}

// Cgroup is what this process's cgroups allow; 0: no limit.
type Cgroup struct {
	MemoryLimit int64  `json:"memory_limit,omitempty"`
	MemoryUsed  int64  `json:"memory_used,omitempty"` // without what is cached of files
	MemoryFile  string `json:"memory_file,omitempty"` // where the limit stands
	OOMKills    int    `json:"oom_kills,omitempty"`
	PIDLimit    int64  `json:"pid_limit,omitempty"`
	PIDs        int64  `json:"pids,omitempty"`
	PIDFile     string `json:"pid_file,omitempty"`
}

// FileSystem is a mounted file system.
type FileSystem struct {
	Type  string `json:"type,omitempty"` // "tmpfs"
	Total int64  `json:"total"`
	Free  int64  `json:"free"`
	Error string `json:"error,omitempty"`
}

// DiskSpace is the space of a directory that a job needs, for this user.
type DiskSpace struct {
	Purpose string `json:"purpose"` // "cache" for gorun's copies, "temporary files"
	Path    string `json:"path"`
	Free    int64  `json:"free"`
	Total   int64  `json:"total"`
	Error   string `json:"error,omitempty"`
}

// Clock is a clock in seconds: its true offset differs from Ahead by less than
// Uncertainty.
type Clock struct {
	Ahead       float64 `json:"ahead"`
	Uncertainty float64 `json:"uncertainty"`
}

// Names is what the host's own name means there.
type Names struct {
	Addresses []string `json:"addresses,omitempty"`
	// Reverse is what the first address that is not a loopback one is called.
	Reverse []string `json:"reverse,omitempty"`
	// HostsLine is the line of /etc/hosts that has the name.
	HostsLine string `json:"hosts_line,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Program is the job's program on a host.
type Program struct {
	Dir    string `json:"dir,omitempty"`
	NoDir  string `json:"no_dir,omitempty"` // why Dir cannot be the working directory
	Path   string `json:"path,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of its first ProgramBytes
	ELF    string `json:"elf,omitempty"`    // the machine that it is built for: "x86_64"
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Python is the interpreter that scripts would get, and its packages by their names in
// lower case: "torch", "nvidia-nccl-cu12", "numpy".
type Python struct {
	Path     string            `json:"path"`
	Version  string            `json:"version,omitempty"`
	Packages map[string]string `json:"packages,omitempty"`
	CUDA     string            `json:"cuda,omitempty"` // PyTorch's
	ROCm     string            `json:"rocm,omitempty"`
	// NCCL are the libraries that LD_LIBRARY_PATH and the system have, by path, with their
	// versions. Override is the one that hides PyTorch's own.
	NCCL     map[string]string `json:"nccl,omitempty"`
	Override string            `json:"nccl_override,omitempty"`
	// Silent says that it was started to say where its packages are, and did not in time.
	Silent bool `json:"silent,omitempty"`
}

// NVIDIA is NVIDIA's driver.
type NVIDIA struct {
	Driver string `json:"driver,omitempty"` // version of the kernel's module
	Open   bool   `json:"open,omitempty"`   // it is the open one
	// Peermem and GDRCopy: the modules are loaded.
	Peermem bool `json:"peermem,omitempty"`
	GDRCopy bool `json:"gdrcopy,omitempty"`
	// Nodes are device files that a program has to open, by path, with the reason why it
	// cannot; "" for those that it can.
	Nodes    map[string]string `json:"nodes,omitempty"`
	Switches int               `json:"switches,omitempty"` // NVSwitches on the bus
	// FabricManager: its service runs, as far as can be seen.
	FabricManager bool `json:"fabric_manager,omitempty"`
	// Asked: the library was asked, and this is what it told.
	Asked bool           `json:"asked,omitempty"`
	Facts gpufacts.Facts `json:"facts"`
	Error string         `json:"error,omitempty"` // why it was asked in vain
}

// AMD is AMD's driver.
type AMD struct {
	Driver string            `json:"driver,omitempty"`
	Nodes  map[string]string `json:"nodes,omitempty"` // as NVIDIA.Nodes
	GPUs   []AMDGPU          `json:"gpus,omitempty"`
}

// AMDGPU is what AMD's driver tells of a GPU that programs can use. What it does not tell
// is 0.
type AMDGPU struct {
	PCI string `json:"pci"`
	// Uncorrected are errors since the driver was loaded, by the block that had them ("umc":
	// the memory); blocks with none are left out.
	Uncorrected map[string]int64 `json:"uncorrected,omitempty"`
	Resets      int              `json:"resets,omitempty"` // in the kernel's log
	// Memory and what of it the bus sees, in bytes.
	Memory  int64 `json:"memory,omitempty"`
	Visible int64 `json:"visible,omitempty"`
	// Hottest is the sensor that is nearest to its Critical temperature, in °C.
	Hottest  float64 `json:"hottest,omitempty"`
	Critical float64 `json:"critical,omitempty"`
	// PowerCap is what it may take, in watts, PowerDefault what it may by itself.
	PowerCap     float64 `json:"power_cap,omitempty"`
	PowerDefault float64 `json:"power_default,omitempty"`
}

// PCIDevice is a device on the PCI bus.
type PCIDevice struct {
	Address string `json:"address"`
	Vendor  string `json:"vendor"` // "0x10de"
	Class   string `json:"class"`
	Driver  string `json:"driver,omitempty"` // that is bound to it
}

// Bridge is a PCI bridge.
type Bridge struct {
	Address string `json:"address"`
	// ACS is the control word of its access control services; nil: it has none, or only
	// root can see it.
	ACS *uint16 `json:"acs,omitempty"`
}

// Port is a port of an RDMA device.
type Port struct {
	Device    string  `json:"device"` // "mlx5_0"
	Port      int     `json:"port"`
	Layer     string  `json:"link_layer"` // "InfiniBand", "Ethernet"
	State     string  `json:"state"`      // "ACTIVE"
	Physical  string  `json:"physical,omitempty"`
	Rate      string  `json:"rate,omitempty"` // "400 Gb/sec (4X NDR)"
	Gbps      float64 `json:"gbps,omitempty"`
	Width     int     `json:"width,omitempty"` // lanes
	GID       int     `json:"gid"`             // index of a RoCE v2 address, -1: none
	Subnet    string  `json:"subnet,omitempty"`
	PKeys     []int   `json:"pkeys,omitempty"`
	Interface string  `json:"interface,omitempty"`
	Virtual   bool    `json:"virtual,omitempty"`
	EFA       bool    `json:"efa,omitempty"`
	Board     string  `json:"board,omitempty"`
	Type      string  `json:"type,omitempty"` // "MT4129"
	Firmware  string  `json:"firmware,omitempty"`
	PCI       string  `json:"pci,omitempty"`
	// Verbs is the device file, Refused why it cannot be opened.
	Verbs   string `json:"verbs,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Counters are those of [RDMACounters] that there are, Growing by how much they grew in
	// the Watched seconds before.
	Counters map[string]int64 `json:"counters,omitempty"`
	Growing  map[string]int64 `json:"growing,omitempty"`
	Watched  float64          `json:"watched,omitempty"`
}

// Active reports whether it carries data.
func (p Port) Active() bool { return p.State == "ACTIVE" }

// Interface is a network interface that is not the loopback.
type Interface struct {
	Name     string   `json:"name"`
	Physical bool     `json:"physical,omitempty"`
	Wireless bool     `json:"wireless,omitempty"`
	Up       bool     `json:"up,omitempty"` // by the administrator
	Carrier  bool     `json:"carrier,omitempty"`
	MTU      int      `json:"mtu,omitempty"`
	Mbps     int      `json:"mbps,omitempty"` // 0: not known
	Duplex   string   `json:"duplex,omitempty"`
	Prefixes []string `json:"prefixes,omitempty"` // its addresses: "10.0.0.7/24"
	Packets  int64    `json:"packets,omitempty"`  // received
	Errors   int64    `json:"errors,omitempty"`   // received with errors, and sent
	Dropped  int64    `json:"dropped,omitempty"`  // by the adapter, for want of room
}

// HugePages are the kernel's.
type HugePages struct {
	Transparent string `json:"transparent,omitempty"` // "always", "madvise", "never"
	Total       int64  `json:"total,omitempty"`       // bytes that are set aside
	Free        int64  `json:"free,omitempty"`
}

// Process is a process.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	UID  int    `json:"uid"`
	Job  string `json:"job"`
}

// ShmFile is a file in /dev/shm.
type ShmFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Xid is an error of an NVIDIA GPU that the kernel logged.
type Xid struct {
	PCI   string `json:"pci"`
	Code  int    `json:"code"`
	Count int    `json:"count"`
}

// SettingsFile is a file of settings of a library, as /etc/nccl.conf.
type SettingsFile struct{ Path, Text string }
