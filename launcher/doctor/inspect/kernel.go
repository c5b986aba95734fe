package inspect

import (
	"cmp"
	"context"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorun/launcher/doctor"
)

// sysctls are read, by path below /proc/sys.
var sysctls = []string{
	"kernel/shmmax", "kernel/numa_balancing", "kernel/yama/ptrace_scope", "vm/overcommit_memory",
	"net/ipv4/ip_local_port_range",
}

// kernel reads the host's identity and the kernel's settings.
func (in *inspector) kernel(h *doctor.Host) {
	h.Hostname = in.System.Hostname()
	h.Kernel, h.Architecture = in.System.Uname()
	h.UID, h.User = in.System.UID()
	h.Boot = in.text("proc/sys/kernel/random/boot_id")
	h.CPUVendor = fieldOf(in.text("proc/cpuinfo"), "vendor_id", ":")
	h.Uptime = parseUptime(in.text("proc/uptime"))
	h.Portable = in.portable()
	h.Container = in.container()
	h.NoSys = !in.exists("sys/bus/pci") && !in.exists("sys/class/net") && !in.exists("sys/devices/system/cpu")
	h.Sysctls = map[string]string{}
	for _, name := range sysctls {
		if v := in.text("proc/sys/" + name); v != "" {
			h.Sysctls[name] = v
		}
	}
	h.Denied = in.System.Denied()
	h.RemoveIPC = in.removeIPC()
	h.Lingers = h.User != "" && !strings.Contains(h.User, "/") && in.exists("var/lib/systemd/linger/"+h.User)
}

// parseUptime returns the seconds in "350735.47 234388.90", or 0.
func parseUptime(text string) float64 {
	first, _, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil || !(seconds > 0 && seconds < 1e10) { // JSON has no NaN
		return 0
	}
	return seconds
}

// fieldOf returns the first value of a name in lines of a name, a separator and a value.
func fieldOf(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// chassis are SMBIOS's numbers of portable computers: portable, laptop, notebook, sub notebook, tablet, convertible,
// detachable.
var chassis = []string{"8", "9", "10", "14", "30", "31", "32"}

func (in *inspector) portable() bool {
	if slices.Contains(chassis, in.text("sys/class/dmi/id/chassis_type")) {
		return true
	}
	return slices.ContainsFunc(in.list("sys/class/power_supply"), func(name string) bool {
		return strings.HasPrefix(name, "BAT")
	})
}

// container returns the kind of container, "" outside one or if unknown.
func (in *inspector) container() string {
	kind := cmp.Or(strings.ToLower(Container(in.Root, in.Getenv)), in.text("run/systemd/container"))
	if kind != "" {
		return kind
	}
	group := in.text("proc/1/cgroup")
	for _, kind := range []string{"kubepods", "docker", "containerd", "lxc"} {
		if strings.Contains(group, kind) {
			return kind
		}
	}
	return ""
}

// Container names the kind of container that this host is by its files and variables, or "".
func Container(root fs.FS, getenv func(string) string) string {
	has := func(name string) bool { return exists(root, name) }
	switch {
	case getenv("KUBERNETES_SERVICE_HOST") != "":
		return "Kubernetes"
	case has("singularity"), has(".singularity.d"), getenv("APPTAINER_CONTAINER") != "",
		getenv("SINGULARITY_CONTAINER") != "":
		return "Apptainer"
	case has(".dockerenv"):
		return "Docker"
	case has("run/.containerenv"):
		return "Podman"
	}
	return ""
}

// removeIPC returns systemd-logind's setting, "" if it does not run.
func (in *inspector) removeIPC() (value string) {
	if !in.exists("run/systemd/seats") && !in.exists("run/systemd/users") {
		return ""
	}
	names := []string{"etc/systemd/logind.conf"}
	for _, name := range in.list("etc/systemd/logind.conf.d") {
		if strings.HasSuffix(name, ".conf") {
			names = append(names, "etc/systemd/logind.conf.d/"+name)
		}
	}
	for _, name := range names {
		for line := range strings.Lines(in.text(name)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "RemoveIPC="); ok {
				value = "no"
				if slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(strings.TrimSpace(v))) {
					value = "yes"
				}
			}
		}
	}
	return value
}

// memory reads limits, memory, cgroups and huge pages.
func (in *inspector) memory(h *doctor.Host) {
	h.Limits = in.System.Limits()
	info := parseMeminfo(in.text("proc/meminfo"))
	page := info["Hugepagesize"]
	h.Memory = doctor.Memory{
		Total: info["MemTotal"], Available: info["MemAvailable"], CommitLimit: info["CommitLimit"],
		Committed: info["Committed_AS"],
	}
	transparent, _, _ := strings.Cut(in.text("sys/kernel/mm/transparent_hugepage/enabled"), "]")
	h.HugePages = doctor.HugePages{
		Transparent: transparent[strings.LastIndexByte(transparent, '[')+1:], Total: info["HugePages_Total"] * page,
		Free: info["HugePages_Free"] * page,
	}
	h.Cgroup = in.cgroup()
}

// parseMeminfo reads "MemTotal:  65536 kB" as bytes; a number without unit stays.
func parseMeminfo(text string) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil || n < 0 || n > 1<<52 {
			continue
		}
		if len(words) > 1 && words[1] == "kB" {
			n <<= 10
		}
		values[name] = n
	}
	return values
}

// cgroup reads the tightest limits of this process's groups and their ancestors.
func (in *inspector) cgroup() (g doctor.Cgroup) {
	table := in.text("proc/self/cgroup")
	in.visitGroups(table, "memory", func(dir string, v2 bool) {
		limit, used, cached := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"
		shared, kills := "total_shmem", "memory.oom_control"
		if v2 {
			limit, used, cached, shared, kills = "memory.max", "memory.current", "file", "shmem", "memory.events"
		}
		if n := fieldNumber(in.text(dir+"/"+kills), "oom_kill"); n > 0 && g.OOMKills == 0 {
			g.OOMKills = int(n)
		}
		n, ok := in.number(dir + "/" + limit)
		if !ok || n <= 0 || n > 1<<60 {
			return
		}
		stat := in.text(dir + "/memory.stat")
		now, _ := in.number(dir + "/" + used)
		now = max(0, now-max(0, fieldNumber(stat, cached)-fieldNumber(stat, shared))-fieldNumber(stat, "slab_reclaimable"))
		if g.MemoryLimit == 0 || n-now < g.MemoryLimit-g.MemoryUsed {
			g.MemoryLimit, g.MemoryUsed, g.MemoryFile = n, now, "/"+dir+"/"+limit
		}
	})
	in.visitGroups(table, "pids", func(dir string, _ bool) {
		n, ok := in.number(dir + "/pids.max")
		used, _ := in.number(dir + "/pids.current")
		if ok && (g.PIDLimit == 0 || n-used < g.PIDLimit-g.PIDs) {
			g.PIDLimit, g.PIDs, g.PIDFile = n, used, "/"+dir+"/pids.max"
		}
	})
	return g
}

// fieldNumber returns the number after a name at the beginning of a line, or 0.
func fieldNumber(text, name string) int64 {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == name {
			n, _ := strconv.ParseInt(words[1], 10, 64)
			return max(0, n)
		}
	}
	return 0
}

// visitGroups visits the directories of this process's group of a controller and of its ancestors. In a container that
// shows only its own group, that is the only one.
func (in *inspector) visitGroups(table, controller string, visit func(dir string, v2 bool)) {
	for line := range strings.Lines(table) {
		words := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(words) != 3 {
			continue
		}
		v2 := words[1] == ""
		if !v2 && !slices.Contains(strings.Split(words[1], ","), controller) {
			continue
		}
		for _, top := range map[bool][]string{
			true:  {"sys/fs/cgroup", "sys/fs/cgroup/unified"},
			false: {"sys/fs/cgroup/" + controller},
		}[v2] {
			if !in.exists(top + "/cgroup.procs") {
				continue
			}
			dir := path.Join(top, words[2])
			if !strings.HasPrefix(dir, top) || !in.exists(dir+"/cgroup.procs") {
				dir = top
			}
			for ; len(dir) >= len(top); dir = path.Dir(dir) {
				visit(dir, v2)
			}
		}
	}
}

// shm reads the state of /dev/shm.
func (in *inspector) shm(h *doctor.Host) {
	f := in.System.FileSystem("/dev/shm")
	h.Shm = &f
}

// names resolves the host's own name.
func (in *inspector) names(h *doctor.Host) {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(in.ctx, timeout)
	defer cancel()
	name := in.System.Hostname()
	h.Names = &doctor.Names{HostsLine: hostsLine(in.text("etc/hosts"), name)}
	var err error
	if h.Names.Addresses, err = in.System.Lookup(ctx, name); err != nil {
		h.Names.Error = err.Error()
	}
	for _, text := range h.Names.Addresses {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() {
			h.Names.Reverse, _ = in.System.Reverse(ctx, text) // many have none
			break
		}
	}
}

// hostsLine returns the line of /etc/hosts with a name.
func hostsLine(text, name string) string {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) > 1 && slices.Contains(words[1:], name) {
			return strings.Join(words, " ")
		}
	}
	return ""
}
