package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
)

const (
	littleShm  = 16 << 20 // /dev/shm that serves nobody
	enoughShm  = 1 << 30  // for NCCL and PyTorch's data loaders
	enoughIPC  = 64 << 20 // kernel.shmmax
	enoughPIDs = 256
)

func memoryChecks() []Check {
	return []Check{
		{
			ID: "shm", Group: "memory",
			What: "/dev/shm: its type, size and free space",
			Why: "NCCL, MPI, PyTorch's data loaders and comm share memory there. Docker gives 64 MiB, and a rank that fills " +
				"it dies by SIGBUS.",
			Run: each(shm),
		},
		{
			ID: "shmmax", Group: "memory",
			What: "kernel.shmmax, the largest segment of System V shared memory",
			Why:  "Some MPI libraries and ROCm use such segments.",
			Run:  each(largestSegment),
		},
		{
			ID: "overcommit", Group: "memory",
			What: "vm.overcommit_memory=2, which counts memory that was asked for and not used",
			Why:  "Programs with GPUs ask for far more than they use; fork and mmap fail then with memory still free.",
			Run:  each(overcommit),
		},
		{
			ID: "cgroup-memory", Group: "memory",
			What: "the memory that cgroups allow, what of it is used, and whom the kernel killed for it",
			Why:  "A container or a batch job with little memory left has ranks killed by SIGKILL, without a word.",
			Run:  each(cgroupMemory),
		},
		{
			ID: "cgroup-pids", Group: "memory",
			What: "how many processes and threads cgroups allow (pids.max)",
			Why:  "Threads count; beyond it fork and pthread_create fail.",
			Run:  each(cgroupPIDs),
		},
		{
			ID: "cgroup-cpu", Group: "memory",
			What: "the CPU time that cgroups allow",
			Why:  "With less than a CPU ranks are stopped for most of the time, and collectives wait for them.",
			Run:  each(cgroupCPU),
		},
		{
			ID: "huge-pages", Group: "memory",
			What: "memory that is set aside for huge pages, and not used",
			Why:  "What is set aside is lost to everybody who does not ask for such pages.",
			Run:  each(hugePages),
		},
	}
}

// choose is one command in containers, and another elsewhere. Apptainer's have their host's
// devices, limits and memory.
func choose(h *Host, contained, otherwise string) string {
	switch h.Container {
	case "", "apptainer":
		return otherwise
	case "podman":
		return strings.ReplaceAll(contained, "docker run ", "podman run ")
	}
	return contained
}

func shm(h *Host) []Finding {
	s := h.Shm
	if s == nil {
		return nil
	}
	bigger := choose(h, "docker run --shm-size=8g ... # in Kubernetes an emptyDir of medium Memory at /dev/shm",
		"sudo mount -o remount,size=50% /dev/shm")
	evidence := "statfs /dev/shm"
	switch {
	case s.Error != "":
		return []Finding{{
			Severity: Warning, Text: "no /dev/shm: " + s.Error, Evidence: evidence,
			Fix: "sudo mount -t tmpfs tmpfs /dev/shm",
		}}
	case s.Type != "tmpfs" && s.Type != "":
		return []Finding{{
			Severity: Warning, Text: "/dev/shm is no memory but " + s.Type +
				": ranks on a host talk to each other by way of a disk", Evidence: evidence,
			Fix: "sudo mount -t tmpfs tmpfs /dev/shm",
		}}
	case s.Total < littleShm:
		return []Finding{{
			Severity: worse(h, Error), Text: "/dev/shm has " + bytes(s.Total) + " only", Evidence: evidence,
			Fix: bigger,
		}}
	case s.Free < littleShm:
		return []Finding{{
			Severity: worse(h, Error), Text: "/dev/shm is full",
			Evidence: fmt.Sprintf("%s: %s of %s free", evidence, bytes(s.Free), bytes(s.Total)), Fix: "ls -lhS /dev/shm",
		}}
	case s.Total < enoughShm && len(h.Machine.GPUs) > 0:
		return []Finding{{Severity: Warning, Text: "/dev/shm has " + bytes(s.Total) +
			" only: NCCL and data loaders need more", Evidence: evidence, Fix: bigger}}
	case s.Total < enoughShm:
		return []Finding{{
			Severity: Note, Text: "/dev/shm has " + bytes(s.Total) + ": little for PyTorch's data loaders",
			Evidence: evidence, Fix: bigger,
		}}
	}
	return nil
}

// worse is a warning, and something worse on hosts with GPUs.
func worse(h *Host, with Severity) Severity {
	if len(h.Machine.GPUs) > 0 {
		return with
	}
	return Warning
}

func overcommit(h *Host) []Finding {
	m := h.Memory
	if h.Sysctls["vm/overcommit_memory"] != "2" || m.CommitLimit == 0 {
		return nil
	}
	f := Finding{
		Severity: Note, Text: "memory counts when it is asked for, not when it is used",
		Evidence: fmt.Sprintf("/proc/sys/vm/overcommit_memory is 2; %s of %s are promised", bytes(m.Committed),
			bytes(m.CommitLimit)),
		Fix: "sudo sysctl -w vm.overcommit_memory=0",
	}
	if m.CommitLimit-m.Committed < m.Total/8 {
		f.Severity, f.Text = Warning, "hardly any memory may be asked for, though some is free: it counts before it is used"
	}
	return []Finding{f}
}

func cgroupMemory(h *Host) (all []Finding) {
	g := h.Cgroup
	if g.OOMKills > 0 {
		all = append(all, Finding{
			Severity: Note, Text: fmt.Sprintf("the kernel has killed processes of this cgroup for want of memory, %s",
				times(g.OOMKills)), Evidence: "memory.events, oom_kill",
			Fix: "sudo dmesg | grep -i oom",
		})
	}
	if g.MemoryLimit == 0 || h.Memory.Total > 0 && g.MemoryLimit >= h.Memory.Total {
		return all
	}
	f := Finding{Severity: Note, Text: fmt.Sprintf("cgroups allow %s of the machine's %s", bytes(g.MemoryLimit),
		bytes(h.Memory.Total)), Evidence: g.MemoryFile, Fix: "sort -rnk2 " + shellwords.Quote(dirOf(g.MemoryFile)) +
		"/memory.stat | head"}
	if left := g.MemoryLimit - g.MemoryUsed; left < g.MemoryLimit/20 || left < 64<<20 {
		f.Severity, f.Text = Warning, fmt.Sprintf("cgroups leave %s of %s", bytes(max(0, left)), bytes(g.MemoryLimit))
		f.Fix = choose(h, "docker run --memory 64g ...", f.Fix)
	}
	return append(all, f)
}

func largestSegment(h *Host) []Finding {
	n, err := strconv.ParseUint(h.Sysctls["kernel/shmmax"], 10, 64)
	if err != nil || n >= enoughIPC {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: "segments of shared memory may have " + bytes(int64(n)) + " only",
		Evidence: "/proc/sys/kernel/shmmax",
		Fix:      "sudo sysctl -w kernel.shmmax=18446744073692774399",
	}}
}

func cgroupPIDs(h *Host) []Finding {
	g := h.Cgroup
	if g.PIDLimit == 0 || g.PIDLimit-g.PIDs >= enoughPIDs {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: fmt.Sprintf("room for %d processes and threads is left of %d", max(0, g.PIDLimit-g.PIDs),
			g.PIDLimit), Evidence: g.PIDFile,
		Fix: choose(h, "docker run --pids-limit -1 ...", "systemctl show --property TasksMax user-$(id -u).slice"),
	}}
}

func cgroupCPU(h *Host) []Finding {
	quota := h.Machine.Quota
	if n := h.Machine.CPUs.Len(); quota == 0 || quota >= float64(n) {
		return nil
	}
	f := Finding{Severity: Note, Text: "CPU time is limited: " + h.Machine.CPUReason(), Evidence: "cpu.max of the cgroup"}
	f.Fix = choose(h, "docker run --cpus 2 ...", "systemctl show --property CPUQuotaPerSecUSec user-$(id -u).slice")
	if quota < 1 {
		f.Severity = Warning
	}
	return []Finding{f}
}

func hugePages(h *Host) []Finding {
	p := h.HugePages
	if h.Memory.Total == 0 || p.Free <= h.Memory.Total/2 {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: fmt.Sprintf("%s of %s are set aside for huge pages, and not used", bytes(p.Free),
			bytes(h.Memory.Total)), Evidence: "/proc/meminfo, HugePages_Free",
		Fix: "sudo sysctl -w vm.nr_hugepages=0",
	}}
}
