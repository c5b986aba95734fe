package doctor

import (
	"gorun/env/nccl"
	"gorun/placement"
	"gorun/placement/gpufacts"
)

// Host is what package inspect found on one host. What could not be read is zero, and no check reports on it. Sizes are
// in bytes.
type Host struct {
	Name     string `json:"host"`               // as the user named it
	Here     bool   `json:"here,omitempty"`     // gorun runs on it
	Hostname string `json:"hostname,omitempty"` // its own name for itself
	// Boot is the kernel's boot ID: hosts with the same one are one machine.
	Boot       string `json:"boot_id,omitempty"`
	Gorun      string `json:"gorun_version,omitempty"` // version
	Executable string `json:"executable,omitempty"`    // path of gorun on it
	UID        int    `json:"uid"`                     // numeric user ID of the agent
	User       string `json:"user,omitempty"`          // login name of the agent's user; absent if unknown

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
	Memory    Memory            `json:"memory"`               // of the whole host
	Cgroup    Cgroup            `json:"cgroup"`               // limits of the cgroup that ranks start in
	Shm       *FileSystem       `json:"shm,omitempty"`        // /dev/shm; nil if not inspected
	DiskSpace []DiskSpace       `json:"disk_space,omitempty"` // free space in the folders that gorun uses
	// Denied maps refused system calls ("set_mempolicy") to the reasons.
	Denied map[string]string `json:"denied,omitempty"`
	// RemoveIPC is the setting of systemd-logind: "yes" or "no"; "" if unset or not running.
	RemoveIPC string `json:"remove_ipc,omitempty"`
	Lingers   bool   `json:"lingers,omitempty"` // the user's systemd instance outlives sessions

	Clock   *Clock   `json:"clock,omitempty"`     // offset from this host's clock; absent if unknown
	Names   *Names   `json:"names,omitempty"`     // what the host's own name resolves to
	Dir     string   `json:"directory,omitempty"` // working directory of ranks
	Program *Program `json:"program,omitempty"`   // the program of the command line; absent without one
	Python  Python   `json:"python,omitzero"`     // the interpreter that scripts would run with
	// Libraries maps the libraries of fabrics that were found to their paths.
	Libraries map[string]string `json:"libraries,omitzero"`

	Machine    placement.Machine `json:"machine"`              // CPUs, memory, GPUs and network adapters
	NVIDIA     *NVIDIA           `json:"nvidia,omitempty"`     // state of NVIDIA's driver and GPUs; absent without them
	AMD        *AMD              `json:"amd,omitempty"`        // state of AMD's driver and GPUs; absent without them
	Driverless []PCIDevice       `json:"driverless,omitempty"` // GPUs without a driver
	Bridges    []Bridge          `json:"bridges,omitempty"`    // PCI bridges above GPUs
	// IOMMU is the type of the IOMMU group of each GPU and RDMA adapter, by PCI address: "identity", "DMA", "DMA-FQ".
	IOMMU      map[string]string `json:"iommu_types,omitempty"`
	RDMA       []Port            `json:"rdma,omitempty"`             // ports of RDMA adapters
	Interfaces []Interface       `json:"interfaces,omitempty"`       // network interfaces
	Governors  map[string]int    `json:"cpus_by_governor,omitempty"` // CPUs by their frequency governor
	Governing  string            `json:"frequency_driver,omitempty"` // the frequency driver: "intel_pstate"
	HugePages  HugePages         `json:"huge_pages"`                 // transparent and reserved huge pages

	ProcessesKnown bool      `json:"processes_known,omitempty"` // they were inspected in time
	Orphans        []Process `json:"orphans,omitempty"`         // of jobs without a launcher
	ShmFiles       []ShmFile `json:"shm_files,omitempty"`       // that no process uses
	KernelXids     []Xid     `json:"kernel_xids,omitempty"`     // NVIDIA's errors in the kernel's log

	// SettingsFiles are the host's configuration files of NCCL or RCCL, Environ its agent's environment if that is not
	// what ranks inherit. Neither is in JSON: an environment has secrets.
	SettingsFiles []nccl.ConfFile `json:"-"`
	Environ       []string        `json:"-"`
	// Notes are findings of other packages about this host, such as about its environment.
	Notes []Finding `json:"notes,omitempty"`
	// Unknown says what was not inspected, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// ProgramBytes bounds how much of a program is hashed for comparison.
const ProgramBytes = 1 << 30

// Limit is a resource limit; -1 is unlimited.
type Limit struct {
	Soft int64 `json:"soft"` // limit in force; -1: none
	Hard int64 `json:"hard"` // highest value of the soft limit; -1: none
}

// Memory is /proc/meminfo.
type Memory struct {
	Total       int64 `json:"total_bytes"`                  // installed memory
	Available   int64 `json:"available_bytes"`              // memory that programs can still get
	CommitLimit int64 `json:"commit_limit_bytes,omitempty"` // most that may be promised without overcommit
	Committed   int64 `json:"committed_bytes,omitempty"`    // what is promised now
}

// Cgroup has the tightest limits of this process's cgroups; 0 is unlimited.
type Cgroup struct {
	MemoryLimit int64  `json:"memory_limit_bytes,omitempty"`  // smallest limit that applies; absent without one
	MemoryUsed  int64  `json:"memory_used_bytes,omitempty"`   // without the page cache
	MemoryFile  string `json:"memory_file,omitempty"`         // that sets the limit
	OOMKills    int    `json:"out_of_memory_kills,omitempty"` // processes that the kernel has killed in this cgroup
	PIDLimit    int64  `json:"pid_limit,omitempty"`           // limit of processes and threads; absent without one
	PIDs        int64  `json:"pid_count,omitempty"`           // processes and threads in the cgroup now
	PIDFile     string `json:"pid_file,omitempty"`            // file that sets the limit
}

// FileSystem is a mounted file system.
type FileSystem struct {
	Type  string `json:"type,omitempty"`  // "tmpfs"
	Total int64  `json:"total_bytes"`     // size
	Free  int64  `json:"free_bytes"`      // unused part
	Error string `json:"error,omitempty"` // why the values are unknown
}

// DiskSpace is the space in a directory that a job needs, for this user.
type DiskSpace struct {
	Purpose string `json:"purpose"`         // "cache" for gorun's copies, "temporary files"
	Path    string `json:"path"`            // folder
	Free    int64  `json:"free_bytes"`      // that the user may fill
	Total   int64  `json:"total_bytes"`     // size of the file system
	Error   string `json:"error,omitempty"` // why the values are unknown
}

// Clock is a clock's offset from this host's, in seconds. The true offset differs from Ahead by less than Uncertainty.
type Clock struct {
	Ahead       float64 `json:"ahead_seconds"`       // how far it is ahead of this host's clock; negative if behind
	Uncertainty float64 `json:"uncertainty_seconds"` // largest error of that value
}

// Names is how the host resolves its own name.
type Names struct {
	Addresses []string `json:"addresses,omitempty"` // IP addresses of the host's own name
	// Reverse are the names of the first address that is not a loopback.
	Reverse []string `json:"reverse,omitempty"`
	// HostsLine is the line of /etc/hosts with the name.
	HostsLine string `json:"hosts_line,omitempty"`
	Error     string `json:"error,omitempty"` // why the name does not resolve
}

// Program is the job's program on a host.
type Program struct {
	Dir    string `json:"directory,omitempty"`       // working directory of ranks
	NoDir  string `json:"directory_error,omitempty"` // why Dir cannot be the working directory
	Path   string `json:"path,omitempty"`            // file that would run; absent if not found
	Kind   string `json:"kind,omitempty"`            // such as "executable" or "Python script"
	Size   int64  `json:"size_bytes,omitempty"`      // size of the file
	SHA256 string `json:"sha256,omitempty"`          // of its first GiB
	ELF    string `json:"elf,omitempty"`             // the architecture it is built for: "x86_64"
	Error  string `json:"error,omitempty"`           // why it cannot run
	Hint   string `json:"hint,omitempty"`            // what to do about the error
}

// Python is the interpreter that runs scripts, and the versions of its packages by their lower-case names: "torch",
// "nvidia-nccl-cu12", "numpy".
type Python struct {
	Path     string            `json:"path"`               // of the interpreter
	Version  string            `json:"version,omitempty"`  // such as "3.12.3"
	Packages map[string]string `json:"packages,omitempty"` // versions by package name, such as "torch"
	CUDA     string            `json:"cuda,omitempty"`     // PyTorch's
	ROCm     string            `json:"rocm,omitempty"`     // version of PyTorch's ROCm; absent without it
	// NCCL maps the libraries in LD_LIBRARY_PATH and the system's directories to their versions. Override is the one that
	// hides PyTorch's own.
	NCCL     map[string]string `json:"nccl,omitempty"`
	Override string            `json:"nccl_override,omitempty"`
	// Silent says that the interpreter did not print its package directories in time.
	Silent bool `json:"silent,omitempty"`
}

// NVIDIA is NVIDIA's driver.
type NVIDIA struct {
	Driver  string `json:"driver,omitempty"`      // version of the kernel module
	Open    bool   `json:"open_source,omitempty"` // the open-source module
	Peermem bool   `json:"peermem,omitempty"`     // module nvidia_peermem is loaded
	GDRCopy bool   `json:"gdrcopy,omitempty"`     // module gdrdrv is loaded
	// each device file that a program needs, with the reason why it cannot open it; "" if it can
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
	Driver string            `json:"driver,omitempty"`       // version of amdgpu; absent if unknown
	Nodes  map[string]string `json:"device_files,omitempty"` // as NVIDIA.Nodes
	GPUs   []AMDGPU          `json:"gpus,omitempty"`         // what the driver reports, in PCI order
}

// AMDGPU is what AMD's driver reports about a usable GPU; unknown values are 0.
type AMDGPU struct {
	PCI string `json:"pci_address"` // in the kernel's format
	// Uncorrected counts errors since the driver was loaded, by hardware block ("umc" is the memory), without zeros.
	Uncorrected map[string]int64 `json:"uncorrected,omitempty"`
	Resets      int              `json:"resets,omitempty"` // in the kernel's log
	// Memory is in bytes; Visible is the part that the bus can address.
	Memory  int64 `json:"memory_bytes,omitempty"`
	Visible int64 `json:"visible_bytes,omitempty"`
	// temperature in °C of the sensor closest to its critical one
	Hottest      float64 `json:"hottest_celsius,omitempty"`
	Critical     float64 `json:"critical_celsius,omitempty"`    // that sensor's critical temperature
	PowerCap     float64 `json:"power_cap_watts,omitempty"`     // the configured limit
	PowerDefault float64 `json:"power_default_watts,omitempty"` // the default limit
}

// PCIDevice is a device on the PCI bus.
type PCIDevice struct {
	Address string `json:"address"`          // in the kernel's format
	Vendor  string `json:"vendor"`           // "0x10de"
	Class   string `json:"class"`            // PCI class, such as "0x030200"
	Driver  string `json:"driver,omitempty"` // kernel driver; absent without one
}

// Bridge is a PCI bridge.
type Bridge struct {
	Address string `json:"address"` // PCI address, in the kernel's format
	// ACS is the control word of its access control services; nil if it has none or only root can read it.
	ACS *uint16 `json:"acs,omitempty"`
}

// Port is a port of an RDMA device.
type Port struct {
	Device    string  `json:"device"`                        // "mlx5_0"
	Port      int     `json:"port"`                          // number on the device, from 1
	Layer     string  `json:"link_layer"`                    // "InfiniBand", "Ethernet"
	State     string  `json:"state"`                         // "ACTIVE"
	Physical  string  `json:"physical,omitempty"`            // physical state, such as "LinkUp"
	Rate      string  `json:"rate,omitempty"`                // "400 Gb/sec (4X NDR)"
	Gbps      float64 `json:"gigabits_per_second,omitempty"` // speed; absent if unknown
	Width     int     `json:"lanes,omitempty"`               // lanes
	GID       int     `json:"gid_index"`                     // index of a RoCE v2 address, -1 if none
	PKeys     []int   `json:"pkeys,omitempty"`               // InfiniBand partition keys
	Interface string  `json:"interface,omitempty"`           // its network interface; absent without one
	Virtual   bool    `json:"virtual,omitempty"`             // a virtual function
	EFA       bool    `json:"efa,omitempty"`                 // Amazon's EFA
	Board     string  `json:"board,omitempty"`               // board ID of the adapter
	Type      string  `json:"type,omitempty"`                // "MT4129"
	Firmware  string  `json:"firmware,omitempty"`            // version of the adapter's firmware
	PCI       string  `json:"pci_address,omitempty"`         // in the kernel's format
	// Verbs is the device file; Refused says why it cannot be opened.
	Verbs   string `json:"verbs,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Counters are the existing [RDMACounters]; Growing is how much each grew within the last Watched seconds; Watched
	// is how long the counters were compared.
	Counters map[string]int64 `json:"counters,omitempty"`
	Growing  map[string]int64 `json:"growing,omitempty"`
	Watched  float64          `json:"watched_seconds,omitempty"`
}

// Active reports whether the port carries data.
func (p Port) Active() bool { return p.State == "ACTIVE" }

// Interface is a network interface other than the loopback.
type Interface struct {
	Name     string   `json:"name"`                          // such as "eth0"
	Physical bool     `json:"physical,omitempty"`            // hardware, not a virtual device
	Wireless bool     `json:"wireless,omitempty"`            // a Wi-Fi adapter
	Up       bool     `json:"up,omitempty"`                  // by the administrator
	Carrier  bool     `json:"carrier,omitempty"`             // the link is up
	MTU      int      `json:"mtu_bytes,omitempty"`           // largest IP packet; absent if unknown
	Mbps     int      `json:"megabits_per_second,omitempty"` // 0 if unknown
	Duplex   string   `json:"duplex,omitempty"`              // "full" or "half"; absent if unknown
	Prefixes []string `json:"prefixes,omitempty"`            // its addresses: "10.0.0.7/24"
	Packets  int64    `json:"packets,omitempty"`             // received
	Errors   int64    `json:"errors,omitempty"`              // received with errors, and sent
	Dropped  int64    `json:"dropped,omitempty"`             // by the adapter, for lack of buffers
}

// HugePages is the kernel's configuration of huge pages.
type HugePages struct {
	Transparent string `json:"transparent,omitempty"` // "always", "madvise", "never"
	Total       int64  `json:"total_bytes,omitempty"` // reserved bytes
	Free        int64  `json:"free_bytes,omitempty"`  // reserved bytes that no process uses
}

// Process is a process of a job.
type Process struct {
	PID  int    `json:"pid"`  // in the agent's PID namespace
	Name string `json:"name"` // of its executable
	UID  int    `json:"uid"`  // numeric user ID of its owner
	Job  string `json:"job"`  // ID of the job that it belongs to
}

// ShmFile is a file in /dev/shm.
type ShmFile struct {
	Name string `json:"name"`       // file in /dev/shm
	Size int64  `json:"size_bytes"` // size of the file
}

// Xid is an NVIDIA GPU error that the kernel logged.
type Xid struct {
	PCI   string `json:"pci_address"` // of the GPU, in the kernel's format
	Code  int    `json:"code"`        // NVIDIA's number of the error
	Count int    `json:"count"`       // how often the log has it
}
