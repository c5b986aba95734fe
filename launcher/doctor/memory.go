package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
)

const (
	littleShm  = 16 << 20 // too little for any program
	enoughShm  = 1 << 30  // for NCCL and PyTorch's data loaders
	enoughIPC  = 64 << 20 // kernel.shmmax
	enoughPIDs = 256
)

func memoryChecks() []Check {
	return []Check{
		{
			"shm", "memory",
			"/dev/shm: its type, size and free space",
			"NCCL, MPI and PyTorch's data loaders share memory there. Docker gives it 64 MiB; a rank that " +
				"fills it dies of SIGBUS.",
			each(shm),
		},
		{
			"shmmax", "memory",
			"kernel.shmmax, the largest segment of System V shared memory",
			"Some MPI libraries and ROCm use such segments.",
			each(largestSegment),
		},
		{
			"overcommit", "memory",
			"vm.overcommit_memory=2, which counts memory when it is allocated",
			"Programs with GPUs allocate far more than they use; then fork and mmap fail with memory still free.",
			each(overcommit),
		},
		{
			"cgroup-memory", "memory",
			"memory limits of cgroups, the memory in use, and kills by the kernel",
			"A container or a batch job with little memory left makes the kernel kill ranks with SIGKILL, without a message.",
			each(cgroupMemory),
		},
		{
			"cgroup-pids", "memory",
			"cgroups' limits of processes and threads (pids.max)",
			"Threads count; beyond the limit fork and pthread_create fail.",
			each(cgroupPIDs),
		},
		{
			"cgroup-cpu", "memory",
			"the CPU time that cgroups allow",
			"With less than one CPU, ranks are paused most of the time, and collectives wait for them.",
			each(cgroupCPU),
		},
		{
			"huge-pages", "memory",
			"memory reserved for huge pages and unused",
			"Programs that do not use huge pages cannot use this memory.",
			each(hugePages),
		},
	}
}

// choose returns one command in containers and another elsewhere. Apptainer containers have the host's devices, limits
// and memory.
func choose(h *Host, contained, otherwise string) string {
	switch h.Container {
	case "", "apptainer":
		return otherwise
	case "podman":
		return strings.ReplaceAll(contained, "docker run ", "podman run ")
	}
	return contained
}

func shm(h *Host, r report) {
	const evidence, mount = "statfs /dev/shm", "sudo mount -t tmpfs tmpfs /dev/shm"
	if h.Shm == nil {
		return
	}
	bigger := choose(h, "docker run --shm-size=8g ... # in Kubernetes an emptyDir of medium Memory at /dev/shm",
		"sudo mount -o remount,size=50% /dev/shm")
	worse, gpus := Warning, len(h.Machine.GPUs) > 0
	if gpus {
		worse = Error
	}
	switch s, size := h.Shm, Size(h.Shm.Total); {
	case s.Error != "":
		r.warn("no /dev/shm: "+s.Error, evidence, mount)
	case s.Type != "tmpfs" && s.Type != "":
		r.warn("/dev/shm is no memory but "+s.Type+": ranks on a host talk to each other by way of a disk",
			evidence, mount)
	case s.Total < littleShm:
		r.add(worse, "/dev/shm has only "+size, evidence, bigger)
	case s.Free < littleShm:
		r.add(worse, "/dev/shm is full", fmt.Sprintf("%s: %s of %s free", evidence, Size(s.Free), size),
			"ls -lhS /dev/shm")
	case s.Total < enoughShm && gpus:
		r.warn("/dev/shm has only "+size+": NCCL and data loaders need more", evidence, bigger)
	case s.Total < enoughShm:
		r.note("/dev/shm has "+size+": little for PyTorch's data loaders", evidence, bigger)
	}
}

func overcommit(h *Host, r report) {
	m := h.Memory
	if h.Sysctls["vm/overcommit_memory"] != "2" || m.CommitLimit == 0 {
		return
	}
	serious, text := m.CommitLimit-m.Committed < m.Total/8, "memory counts when it is allocated, not when it is used"
	if serious {
		text = "hardly any memory can be allocated, though some is free: it counts before it is used"
	}
	r.warnIf(serious, text, fmt.Sprintf("/proc/sys/vm/overcommit_memory is 2; %s of %s are promised",
		Size(m.Committed), Size(m.CommitLimit)), "sudo sysctl -w vm.overcommit_memory=0")
}

func cgroupMemory(h *Host, r report) {
	g := h.Cgroup
	if g.OOMKills > 0 {
		r.note("the kernel has killed processes of this cgroup for want of memory, "+times(g.OOMKills),
			"memory.events, oom_kill", "sudo dmesg | grep -i oom")
	}
	if g.MemoryLimit == 0 || h.Memory.Total > 0 && g.MemoryLimit >= h.Memory.Total {
		return
	}
	fix := "sort -rnk2 " + shellwords.Quote(dirOf(g.MemoryFile)) + "/memory.stat | head"
	if left := g.MemoryLimit - g.MemoryUsed; left < g.MemoryLimit/20 || left < 64<<20 {
		r.warn(fmt.Sprintf("cgroups leave %s of %s", Size(max(0, left)), Size(g.MemoryLimit)),
			g.MemoryFile, choose(h, "docker run --memory 64g ...", fix))
		return
	}
	r.note(fmt.Sprintf("cgroups allow %s of the machine's %s", Size(g.MemoryLimit),
		Size(h.Memory.Total)), g.MemoryFile, fix)
}

func largestSegment(h *Host, r report) {
	n, err := strconv.ParseUint(h.Sysctls["kernel/shmmax"], 10, 64)
	if err == nil && n < enoughIPC {
		r.warn("shared memory segments are limited to "+Size(int64(n)), "/proc/sys/kernel/shmmax",
			"sudo sysctl -w kernel.shmmax=18446744073692774399")
	}
}

func cgroupPIDs(h *Host, r report) {
	g := h.Cgroup
	if left := g.PIDLimit - g.PIDs; g.PIDLimit != 0 && left < enoughPIDs {
		r.warn(fmt.Sprintf("room for %d processes and threads is left of %d", max(0, left), g.PIDLimit), g.PIDFile,
			choose(h, "docker run --pids-limit -1 ...", "systemctl show --property TasksMax user-$(id -u).slice"))
	}
}

func cgroupCPU(h *Host, r report) {
	quota := h.Machine.Quota
	if quota > 0 && quota < float64(h.Machine.CPUs.Len()) {
		r.warnIf(quota < 1, "CPU time is limited: "+h.Machine.CPUReason(), "cpu.max of the cgroup",
			choose(h, "docker run --cpus 2 ...", "systemctl show --property CPUQuotaPerSecUSec user-$(id -u).slice"))
	}
}

func hugePages(h *Host, r report) {
	free, total := h.HugePages.Free, h.Memory.Total
	if total > 0 && free > total/2 {
		r.warn(fmt.Sprintf("%s of %s are set aside for huge pages, and not used", Size(free), Size(total)),
			"/proc/meminfo, HugePages_Free", "sudo sysctl -w vm.nr_hugepages=0")
	}
}
