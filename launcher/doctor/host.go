package doctor

import (
	"gorun/placement"
	"gorun/placement/gpufacts"
)

// Host is what package inspect found on one host. What could not be read is zero, and no check reports on it. Sizes are
// in bytes.
type Host struct {
	Name     string `json:"host"` // as the user named it
	Here     bool   `json:"here,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Boot is the kernel's boot ID: hosts with the same one are one machine.
	Boot       string `json:"boot_id,omitempty"`
	Gorun      string `json:"gorun_version,omitempty"` // version
	Executable string `json:"executable,omitempty"`
	UID        int    `json:"uid"`
	User       string `json:"user,omitempty"`

	Kernel       string  `json:"kernel,omitempty"`         // "6.8.0-45-generic"
	Architecture string  `json:"architecture,omitempty"`   // "x86_64"
	CPUVendor    string  `json:"cpu_vendor,omitempty"`     // "AuthenticAMD"
	Uptime       float64 `json:"uptime_seconds,omitempty"` // in seconds
	Portable     bool    `json:"portable,omitempty"`       // a laptop, which should save power
	Container    string  `json:"container,omitempty"`      // its kind: "docker"; "" if none
	NoSys        bool    `json:"no_sys,omitempty"`         // /sys is not mounted, or empty

	// Limits are what ranks start with, by their names in limits.conf.
	Limits map[string]Limit `json:"limits,omitempty"`
	// Sysctls are keyed by path below /proc/sys: "kernel/shmmax".
	Sysctls   map[string]string `json:"sysctls,omitempty"`
	Memory    Memory            `json:"memory"`
	Cgroup    Cgroup            `json:"cgroup"`
	Shm       *FileSystem       `json:"shm,omitempty"` // /dev/shm; nil if not inspected
	DiskSpace []DiskSpace       `json:"disk_space,omitempty"`
	// Denied maps refused system calls ("set_mempolicy") to the reasons.
	Denied map[string]string `json:"denied,omitempty"`
	// RemoveIPC is the setting of systemd-logind: "yes" or "no"; "" if unset or not running.
	RemoveIPC string `json:"remove_ipc,omitempty"`
	Lingers   bool   `json:"lingers,omitempty"` // the user's systemd instance outlives sessions

	Clock   *Clock   `json:"clock,omitempty"`
	Names   *Names   `json:"names,omitempty"`
	Program *Program `json:"program,omitempty"`
	Python  Python   `json:"python,omitzero"`
	// Libraries maps the libraries of fabrics that were found to their paths.
	Libraries map[string]string `json:"libraries,omitzero"`

	Machine    placement.Machine `json:"machine"`
	NVIDIA     *NVIDIA           `json:"nvidia,omitempty"`
	AMD        *AMD              `json:"amd,omitempty"`
	Driverless []PCIDevice       `json:"driverless,omitempty"` // GPUs without a driver
	Bridges    []Bridge          `json:"bridges,omitempty"`    // PCI bridges above GPUs
	// IOMMU is the type of the IOMMU group of each GPU and RDMA adapter, by PCI address: "identity", "DMA", "DMA-FQ".
	IOMMU      map[string]string `json:"iommu_types,omitempty"`
	RDMA       []Port            `json:"rdma,omitempty"`
	Interfaces []Interface       `json:"interfaces,omitempty"`
	Governors  map[string]int    `json:"cpus_by_governor,omitempty"` // CPUs by their frequency governor
	Governing  string            `json:"frequency_driver,omitempty"` // the frequency driver: "intel_pstate"
	HugePages  HugePages         `json:"huge_pages"`

	ProcessesKnown bool      `json:"processes_known,omitempty"` // they were inspected in time
	Orphans        []Process `json:"orphans,omitempty"`         // of jobs without a launcher
	ShmFiles       []ShmFile `json:"shm_files,omitempty"`       // that no process uses
	KernelXids     []Xid     `json:"kernel_xids,omitempty"`     // NVIDIA's errors in the kernel's log

	// SettingsFiles are the host's configuration files of NCCL or RCCL, Environ its agent's environment if that is not
	// what ranks inherit. Neither is in JSON: an environment has secrets.
	SettingsFiles []SettingsFile `json:"-"`
	Environ       []string       `json:"-"`
	// Notes are findings of other packages about this host, such as about its environment.
	Notes []Finding `json:"notes,omitempty"`
	// Unknown says what was not inspected, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// ProgramBytes bounds how much of a program is hashed for comparison.
const ProgramBytes = 1 << 30

// Limit is a resource limit; -1 is unlimited.
type Limit struct {
	Soft int64 `json:"soft"`
	Hard int64 `json:"hard"`
}

// Memory is /proc/meminfo.
type Memory struct {
	Total       int64 `json:"total_bytes"`
	Available   int64 `json:"available_bytes"`
	CommitLimit int64 `json:"commit_limit_bytes,omitempty"`
	Committed   int64 `json:"committed_bytes,omitempty"`
}

// Cgroup has the tightest limits of this process's cgroups; 0 is unlimited.
type Cgroup struct {
	MemoryLimit int64  `json:"memory_limit_bytes,omitempty"`
	MemoryUsed  int64  `json:"memory_used_bytes,omitempty"` // without the page cache
	MemoryFile  string `json:"memory_file,omitempty"`       // that sets the limit
	OOMKills    int    `json:"out_of_memory_kills,omitempty"`
	PIDLimit    int64  `json:"pid_limit,omitempty"`
	PIDs        int64  `json:"pid_count,omitempty"`
	PIDFile     string `json:"pid_file,omitempty"`
}

// FileSystem is a mounted file system.
type FileSystem struct {
	Type  string `json:"type,omitempty"` // "tmpfs"
	Total int64  `json:"total_bytes"`
	Free  int64  `json:"free_bytes"`
	Error string `json:"error,omitempty"`
}

// DiskSpace is the space in a directory that a job needs, for this user.
type DiskSpace struct {
	Purpose string `json:"purpose"` // "cache" for gorun's copies, "temporary files"
	Path    string `json:"path"`
	Free    int64  `json:"free_bytes"`
	Total   int64  `json:"total_bytes"`
	Error   string `json:"error,omitempty"`
}

// Clock is a clock's offset from this host's, in seconds. The true offset differs from Ahead by less than Uncertainty.
type Clock struct {
	Ahead       float64 `json:"ahead_seconds"`
	Uncertainty float64 `json:"uncertainty_seconds"`
}

// Names is how the host resolves its own name.
type Names struct {
	Addresses []string `json:"addresses,omitempty"`
	// Reverse are the names of the first address that is not a loopback.
	Reverse []string `json:"reverse,omitempty"`
	// HostsLine is the line of /etc/hosts with the name.
	HostsLine string `json:"hosts_line,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Program is the job's program on a host.
type Program struct {
	Dir    string `json:"directory,omitempty"`
	NoDir  string `json:"directory_error,omitempty"` // why Dir cannot be the working directory
	Path   string `json:"path,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Size   int64  `json:"size_bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of its first GiB
	ELF    string `json:"elf,omitempty"`    // the architecture it is built for: "x86_64"
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Python is the interpreter that runs scripts, and the versions of its packages by their lower-case names: "torch",
// "nvidia-nccl-cu12", "numpy".
type Python struct {
	Path     string            `json:"path"`
	Version  string            `json:"version,omitempty"`
	Packages map[string]string `json:"packages,omitempty"`
	CUDA     string            `json:"cuda,omitempty"` // PyTorch's
	ROCm     string            `json:"rocm,omitempty"`
	// NCCL maps the libraries in LD_LIBRARY_PATH and the system's directories to their versions. Override is the one that
	// hides PyTorch's own.
	NCCL     map[string]string `json:"nccl,omitempty"`
	Override string            `json:"nccl_override,omitempty"`
	// Silent says that the interpreter did not print its package directories in time.
	Silent bool `json:"silent,omitempty"`
}

// NVIDIA is NVIDIA's driver.
type NVIDIA struct {
	Driver string `json:"driver,omitempty"`      // version of the kernel module
	Open   bool   `json:"open_source,omitempty"` // the open-source module
	// Peermem and GDRCopy say that these modules are loaded.
	Peermem bool `json:"peermem,omitempty"`
	GDRCopy bool `json:"gdrcopy,omitempty"`
	// Nodes maps device files that a program needs to the reason why it cannot open them, "" if it can.
	Nodes    map[string]string `json:"device_files,omitempty"`
	Switches int               `json:"nvswitch_count,omitempty"` // NVSwitches on the bus
	// FabricManager says that its process was seen.
	FabricManager bool `json:"fabric_manager,omitempty"`
	// Asked says that the library answered, with Facts; Error says why it did not.
	Asked bool           `json:"asked,omitempty"`
	Facts gpufacts.Facts `json:"facts"`
	Error string         `json:"error,omitempty"`
}

// AMD is AMD's driver.
type AMD struct {
	Driver string            `json:"driver,omitempty"`
	Nodes  map[string]string `json:"device_files,omitempty"` // as NVIDIA.Nodes
	GPUs   []AMDGPU          `json:"gpus,omitempty"`
}

// AMDGPU is what AMD's driver reports about a usable GPU; unknown values are 0.
type AMDGPU struct {
	PCI string `json:"pci_address"`
	// Uncorrected counts errors since the driver was loaded, by hardware block ("umc" is the memory), without zeros.
	Uncorrected map[string]int64 `json:"uncorrected,omitempty"`
	Resets      int              `json:"resets,omitempty"` // in the kernel's log
	// Memory is in bytes; Visible is the part that the bus can address.
	Memory  int64 `json:"memory_bytes,omitempty"`
	Visible int64 `json:"visible_bytes,omitempty"`
	// Hottest and Critical are of the sensor closest to its critical temperature, in °C.
	Hottest  float64 `json:"hottest_celsius,omitempty"`
	Critical float64 `json:"critical_celsius,omitempty"`
	// PowerCap is the configured limit and PowerDefault the default one, in watts.
	PowerCap     float64 `json:"power_cap_watts,omitempty"`
	PowerDefault float64 `json:"power_default_watts,omitempty"`
}

// PCIDevice is a device on the PCI bus.
type PCIDevice struct {
	Address string `json:"address"`
	Vendor  string `json:"vendor"` // "0x10de"
	Class   string `json:"class"`
	Driver  string `json:"driver,omitempty"`
}

// Bridge is a PCI bridge.
type Bridge struct {
	Address string `json:"address"`
	// ACS is the control word of its access control services; nil if it has none or only root can read it.
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
	Gbps      float64 `json:"gigabits_per_second,omitempty"`
	Width     int     `json:"lanes,omitempty"` // lanes
	GID       int     `json:"gid_index"`       // index of a RoCE v2 address, -1 if none
	Subnet    string  `json:"subnet,omitempty"`
	PKeys     []int   `json:"pkeys,omitempty"`
	Interface string  `json:"interface,omitempty"`
	Virtual   bool    `json:"virtual,omitempty"`
	EFA       bool    `json:"efa,omitempty"`
	Board     string  `json:"board,omitempty"`
	Type      string  `json:"type,omitempty"` // "MT4129"
	Firmware  string  `json:"firmware,omitempty"`
	PCI       string  `json:"pci_address,omitempty"`
	// Verbs is the device file; Refused says why it cannot be opened.
	Verbs   string `json:"verbs,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Counters are the existing [RDMACounters]; Growing is how much each grew within the last Watched seconds.
	Counters map[string]int64 `json:"counters,omitempty"`
	Growing  map[string]int64 `json:"growing,omitempty"`
	Watched  float64          `json:"watched_seconds,omitempty"`
}

// Active reports whether the port carries data.
func (p Port) Active() bool { return p.State == "ACTIVE" }

// Interface is a network interface other than the loopback.
type Interface struct {
	Name     string   `json:"name"`
	Physical bool     `json:"physical,omitempty"`
	Wireless bool     `json:"wireless,omitempty"`
	Up       bool     `json:"up,omitempty"` // by the administrator
	Carrier  bool     `json:"carrier,omitempty"`
	MTU      int      `json:"mtu_bytes,omitempty"`
	Mbps     int      `json:"megabits_per_second,omitempty"` // 0 if unknown
	Duplex   string   `json:"duplex,omitempty"`
	Prefixes []string `json:"prefixes,omitempty"` // its addresses: "10.0.0.7/24"
	Packets  int64    `json:"packets,omitempty"`  // received
	Errors   int64    `json:"errors,omitempty"`   // received with errors, and sent
	Dropped  int64    `json:"dropped,omitempty"`  // by the adapter, for lack of buffers
}

// HugePages is the kernel's configuration of huge pages.
type HugePages struct {
	Transparent string `json:"transparent,omitempty"` // "always", "madvise", "never"
	Total       int64  `json:"total_bytes,omitempty"` // reserved bytes
	Free        int64  `json:"free_bytes,omitempty"`
}

// Process is a process of a job.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	UID  int    `json:"uid"`
	Job  string `json:"job"`
}

// ShmFile is a file in /dev/shm.
type ShmFile struct {
	Name string `json:"name"`
	Size int64  `json:"size_bytes"`
}

// Xid is an NVIDIA GPU error that the kernel logged.
type Xid struct {
	PCI   string `json:"pci_address"`
	Code  int    `json:"code"`
	Count int    `json:"count"`
}

// SettingsFile is a library's configuration file, such as /etc/nccl.conf.
type SettingsFile struct{ Path, Text string }
