package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
	"gorun/placement"
)

// firstUser is the first user id of people: systemd-logind leaves system users alone.
const firstUser = 1000

func kernelChecks() []Check {
	return []Check{
		{
			ID: "kernel-differs", Group: "kernel",
			What: "whether the hosts run the same kernel",
			Why:  "Drivers and adapters' firmware go with it; a host that was not updated is often the odd one.",
			Run: func(c *Cluster) []Finding {
				return c.differing(func(h *Host) string { return h.Kernel }, func(h *Host, own, most string, others int) Finding {
					return Finding{
						Severity: Note, Text: fmt.Sprintf("its kernel is %s, %s %s", own, theOthers(others), most),
						Evidence: "uname -r", Fix: "uname -a; cat /proc/cmdline",
					}
				})
			},
		},
		{
			ID: "numa-balancing", Group: "kernel",
			What: "automatic NUMA balancing (kernel.numa_balancing)",
			Why: "It takes pages away to see who uses them. RCCL warns of it, and transfers of pinned memory stall; gorun " +
				"places ranks near to their memory itself.",
			Run: each(numaBalancing),
		},
		{
			ID: "governor", Group: "kernel",
			What: "the CPUs' frequency governor",
			Why:  "CPUs that clock down while they wait answer late: latency of small messages doubles.",
			Run:  each(governor),
		},
		{
			ID: "ptrace", Group: "kernel",
			What: "kernel.yama.ptrace_scope and process_vm_readv",
			Why: "MPI libraries copy between ranks by process_vm_readv (CMA); where it is refused they fall back, or fail " +
				"with 'Operation not permitted'.",
			Run: each(ptrace),
		},
		{
			ID: "mempolicy", Group: "kernel",
			What: "whether set_mempolicy is allowed",
			Why: "Docker refuses it without SYS_NICE: gorun cannot place memory, and NCCL 2.23 to 2.26 fails where it " +
				"allocates host memory.",
			Run: each(mempolicy),
		},
		{
			ID: "remove-ipc", Group: "kernel",
			What: "RemoveIPC=yes of systemd-logind, for users that are people",
			Why: "When the last session of a user ends, his shared memory is removed, also that of a job that goes on: " +
				"'unlink shared memory ... failed'.",
			Run: each(removeIPC),
		},
		{
			ID: "ports", Group: "kernel",
			What: "the range of ports that programs get (net.ipv4.ip_local_port_range)",
			Why:  "Each rank listens at several; with few ports they run out.",
			Run:  each(portRange),
		},
		{
			ID: "sys", Group: "kernel",
			What: "whether /sys is there, in containers with GPUs or adapters",
			Why:  "NCCL and gorun find out from it what is near to what.",
			Run: each(func(h *Host) []Finding {
				if !h.NoSys || len(h.Machine.GPUs) == 0 {
					return nil
				}
				return []Finding{{
					Severity: Warning, Text: "/sys is not there: what is near to which GPU cannot be told",
					Evidence: "/sys/bus/pci/devices", Fix: "docker run -v /sys:/sys:ro ...",
				}}
			}),
		},
	}
}

func numaBalancing(h *Host) []Finding {
	if v := h.Sysctls["kernel/numa_balancing"]; v == "" || v == "0" || numaNodes(h) < 2 {
		return nil
	}
	f := Finding{
		Severity: Note, Text: "the kernel moves pages between NUMA nodes by itself",
		Evidence: "/proc/sys/kernel/numa_balancing is " + h.Sysctls["kernel/numa_balancing"],
		Fix:      "sudo sysctl -w kernel.numa_balancing=0",
	}
	if hasGPU(h, placement.AMD) {
		f.Severity = Warning
	}
	return []Finding{f}
}

// numaNodes counts the nodes with CPUs.
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

func hasGPU(h *Host, vendor placement.Vendor) bool {
	return slices.ContainsFunc(h.Machine.GPUs, func(g placement.GPU) bool { return g.Vendor == vendor })
}

func governor(h *Host) []Finding {
	slow := 0
	var names []string
	for name, n := range h.Governors {
		if name != "performance" {
			slow += n
			names = append(names, name)
		}
	}
	if slow == 0 || h.Portable {
		return nil
	}
	slices.Sort(names)
	f := Finding{
		Severity: Note, Text: fmt.Sprintf("%s not at full speed at once: governor %s", plural(slow, "CPU is", "CPUs are"),
			strings.Join(names, ", ")),
		Evidence: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
		Fix:      "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
	}
	// The drivers of Intel's and AMD's newer CPUs call "powersave" what clocks up by itself.
	if slices.Contains(names, "powersave") && !strings.Contains(h.Governing, "pstate") && len(h.Machine.GPUs) > 0 {
		f.Severity = Warning
	}
	return []Finding{f}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func ptrace(h *Host) []Finding {
	if why := h.Denied["process_vm_readv"]; why != "" {
		return []Finding{{
			Severity: Note, Text: "ranks may not read each other's memory: MPI copies by way of shared memory",
			Evidence: "process_vm_readv: " + why,
			Fix:      choose(h, "docker run --cap-add SYS_PTRACE ...", "cat /proc/sys/kernel/yama/ptrace_scope"),
		}}
	}
	if v := h.Sysctls["kernel/yama/ptrace_scope"]; v != "" && v != "0" && h.UID != 0 {
		return []Finding{{
			Severity: Note, Text: "ranks may not read each other's memory: MPI copies by way of shared memory",
			Evidence: "/proc/sys/kernel/yama/ptrace_scope is " + v,
			Fix:      "sudo sysctl -w kernel.yama.ptrace_scope=0",
		}}
	}
	return nil
}

func mempolicy(h *Host) []Finding {
	why := h.Denied["set_mempolicy"]
	if why == "" {
		return nil
	}
	f := Finding{
		Severity: Note, Text: "memory cannot be placed on a NUMA node", Evidence: "set_mempolicy: " + why,
		Fix: "docker run --cap-add SYS_NICE ...",
	}
	if v := ncclVersion(h); v != "" && len(h.Machine.GPUs) > 0 && !before(v, 2, 23) && before(v, 2, 27) {
		f.Severity, f.Text = Warning, "memory cannot be placed on a NUMA node, without which NCCL "+v+" fails"
		f.Fix += " # or export NCCL_CUMEM_HOST_ENABLE=0"
	}
	return []Finding{f}
}

func removeIPC(h *Host) []Finding {
	if h.RemoveIPC != "yes" || h.UID < firstUser || h.Lingers {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: "a job's shared memory is removed when its user's last session ends",
		Evidence: "RemoveIPC=yes in systemd's logind.conf, user id " + strconv.Itoa(h.UID),
		Fix:      "sudo loginctl enable-linger " + shellwords.Quote(h.User),
	}}
}

func portRange(h *Host) []Finding {
	const enough = 1000
	words := strings.Fields(h.Sysctls["net/ipv4/ip_local_port_range"])
	if len(words) != 2 {
		return nil
	}
	from, err1 := strconv.Atoi(words[0])
	to, err2 := strconv.Atoi(words[1])
	if err1 != nil || err2 != nil || to-from+1 >= enough {
		return nil
	}
	return []Finding{{
		Severity: Warning, Text: fmt.Sprintf("programs have %d ports for all of their connections", max(0, to-from+1)),
		Evidence: "/proc/sys/net/ipv4/ip_local_port_range",
		Fix:      "sudo sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
	}}
}
