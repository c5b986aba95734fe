package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
)

// firstUser is the first user ID of a person: systemd-logind exempts system users.
const firstUser = 1000

func kernelChecks() []Check {
	return []Check{
		{
			"kernel-differs", "kernel",
			"whether the hosts run the same kernel",
			"Drivers and firmware depend on it; a host that missed an update often behaves differently.",
			unlike(Note, func(h *Host) string { return h.Kernel }, "its kernel is %s, %s %s", "uname -r",
				"uname -a; cat /proc/cmdline"),
		},
		{
			"numa-balancing", "kernel",
			"automatic NUMA balancing (kernel.numa_balancing)",
			"It unmaps pages to see which CPUs use them. RCCL warns of it, and transfers of pinned memory stall; " +
				"gorun itself places ranks near their memory.",
			each(numaBalancing),
		},
		{
			"governor", "kernel",
			"the CPUs' frequency governor",
			"CPUs that lower their clock while they wait respond late: the latency of small messages doubles.",
			each(governor),
		},
		{
			"ptrace", "kernel",
			"kernel.yama.ptrace_scope and process_vm_readv",
			"MPI libraries copy between ranks with process_vm_readv (CMA). If the kernel refuses it, they fall back, " +
				"or fail with 'Operation not permitted'.",
			each(ptrace),
		},
		{
			"mempolicy", "kernel",
			"whether set_mempolicy is allowed",
			"Docker refuses it without SYS_NICE: gorun cannot place memory, and NCCL 2.23 to 2.26 cannot allocate host memory.",
			each(mempolicy),
		},
		{
			"remove-ipc", "kernel",
			"RemoveIPC=yes of systemd-logind, for ordinary users",
			"When a user's last session ends, systemd removes the user's shared memory, including that of running " +
				"jobs: 'unlink shared memory ... failed'.",
			each(func(h *Host, r report) {
				if h.RemoveIPC == "yes" && h.UID >= firstUser && !h.Lingers {
					r.warn("a job's shared memory is removed when its user's last session ends",
						"RemoveIPC=yes in systemd's logind.conf, user id "+strconv.Itoa(h.UID),
						"sudo loginctl enable-linger "+shellwords.Quote(h.User))
				}
			}),
		},
		{
			"ports", "kernel",
			"the range of automatic ports (net.ipv4.ip_local_port_range)",
			"Each rank listens on several; a small range runs out.",
			each(portRange),
		},
		{
			"sys", "kernel",
			"whether containers with GPUs or adapters have /sys",
			"NCCL and gorun read the topology from it.",
			each(func(h *Host, r report) {
				if h.NoSys && len(h.Machine.GPUs) > 0 {
					r.warn("/sys is missing: the distances between GPUs, CPUs and adapters are unknown", "/sys/bus/pci/devices",
						"docker run -v /sys:/sys:ro ...")
				}
			}),
		},
	}
}

func numaBalancing(h *Host, r report) {
	value := h.Sysctls["kernel/numa_balancing"]
	if value == "" || value == "0" || numaNodes(h) < 2 {
		return
	}
	r.warnIf(len(h.gpusOf(placement.AMD)) > 0, "the kernel moves pages between NUMA nodes by itself",
		"/proc/sys/kernel/numa_balancing is "+value, "sudo sysctl -w kernel.numa_balancing=0")
}

// numaNodes counts the NUMA nodes with CPUs.
func numaNodes(h *Host) (n int) {
	if h.Machine.Topology == nil {
		return 0
	}
	for _, node := range h.Machine.Topology.Nodes {
		if node.CPUs.Len() > 0 {
			n++
		}
	}
	return n
}

func governor(h *Host, r report) {
	slow := 0
	others := maps.Clone(h.Governors)
	delete(others, "performance")
	for _, n := range others {
		slow += n
	}
	if slow == 0 || h.Portable {
		return
	}
	names := slices.Sorted(maps.Keys(others))
	// The drivers of newer Intel and AMD CPUs raise the frequency under load also with the governor "powersave".
	saving := slices.Contains(names, "powersave") && !strings.Contains(h.Governing, "pstate")
	r.warnIf(saving && len(h.Machine.GPUs) > 0,
		plural(slow, "CPU is", "CPUs are")+" not at full speed at once: governor "+strings.Join(names, ", "),
		"/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
		"echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
}

func ptrace(h *Host, r report) {
	const text = "ranks may not read each other's memory: MPI copies by way of shared memory"
	if why := h.Denied["process_vm_readv"]; why != "" {
		r.note(text, "process_vm_readv: "+why,
			choose(h, "docker run --cap-add SYS_PTRACE ...", "cat /proc/sys/kernel/yama/ptrace_scope"))
	} else if v := h.Sysctls["kernel/yama/ptrace_scope"]; v != "" && v != "0" && h.UID != 0 {
		r.note(text, "/proc/sys/kernel/yama/ptrace_scope is "+v, "sudo sysctl -w kernel.yama.ptrace_scope=0")
	}
}

func mempolicy(h *Host, r report) {
	const text, fix = "memory cannot be placed on a NUMA node", "docker run --cap-add SYS_NICE ..."
	why := h.Denied["set_mempolicy"]
	if why == "" {
		return
	}
	why = "set_mempolicy: " + why
	if v := h.Python.loadedNCCL(); v != "" && len(h.Machine.GPUs) > 0 && !before(v, 2, 23) && before(v, 2, 27) {
		r.warn(text+", without which NCCL "+v+" fails", why, fix+" # or export NCCL_CUMEM_HOST_ENABLE=0")
		return
	}
	r.note(text, why, fix)
}

func portRange(h *Host, r report) {
	const enough = 1000
	words := strings.Fields(h.Sysctls["net/ipv4/ip_local_port_range"])
	if len(words) != 2 {
		return
	}
	from, err1 := strconv.Atoi(words[0])
	to, err2 := strconv.Atoi(words[1])
	if err1 != nil || err2 != nil || to-from+1 >= enough {
		return
	}
	r.warn(fmt.Sprintf("programs have %d ports for all of their connections", max(0, to-from+1)),
		"/proc/sys/net/ipv4/ip_local_port_range", "sudo sysctl -w net.ipv4.ip_local_port_range='32768 60999'")
}
