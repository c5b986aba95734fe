package sysfstest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/placement"
)

// ForHwloc adds the files that hwloc reads and gorun's discovery does not: masks instead of lists, and
// numbers. It also sets the cgroup's CPUs to the allowed CPUs.
func (t Tree) ForHwloc(m placement.Machine) {
	topology := m.Topology
	if m.CPUs.Len() < len(topology.CPUs) {
		t.Put("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0")
		t.Put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory")
		t.Put("sys/fs/cgroup/cpuset.cpus.effective", m.CPUs)
		memories := topology.Memories
		if memories.Len() == 0 {
			memories, _ = placement.ParseCPUSet(strings.TrimSpace(string(t.MapFS[nodeDir+"/online"].Data)))
		}
		t.Put("sys/fs/cgroup/cpuset.mems.effective", memories)
	}
	for cpu := range topology.Offline.All() {
		t.Put(cpuDir+"/cpu"+strconv.Itoa(cpu)+"/online", 0)
	}
	masks := map[string]string{
		"core_cpus_list": "core_cpus", "package_cpus_list": "package_cpus", "die_cpus_list": "die_cpus",
		"shared_cpu_list": "shared_cpu_map", "cpulist": "cpumap",
	}
	for _, name := range slices.Collect(maps.Keys(t.MapFS)) {
		if mask := masks[path.Base(name)]; mask != "" {
			set, _ := placement.ParseCPUSet(string(t.MapFS[name].Data))
			t.Put(path.Dir(name)+"/"+mask, kernelMask(set))
		}
		if strings.HasSuffix(name, "/shared_cpu_list") {
			dir := path.Dir(name)
			level := strings.TrimSpace(string(t.MapFS[dir+"/level"].Data))
			set, _ := placement.ParseCPUSet(string(t.MapFS[name].Data))
			t.Put(dir+"/size", level+"024K")
			t.Put(dir+"/coherency_line_size", 64)
			t.Put(dir+"/number_of_sets", level+"024") // 16 ways
			if level != "1" {                         // missing in older kernels
				t.Put(dir+"/id", set.Min())
			}
		}
	}
	for _, cpu := range topology.CPUs {
		dir := cpuDir + "/cpu" + strconv.Itoa(cpu.ID) + "/topology"
		t.Put(dir+"/physical_package_id", cpu.Package)
		t.Put(dir+"/die_id", max(cpu.Die, 0))
		t.Put(dir+"/core_id", cpu.Core)
	}
}

// kernelMask formats a set as the kernel formats masks: "00000001,ffffffff".
func kernelMask(set placement.CPUSet) string {
	var words []string
	mask := set.Mask()
	if len(mask) == 0 {
		return "00000000"
	}
	for i := len(mask) - 1; i >= 0; i-- {
		words = append(words, fmt.Sprintf("%08x,%08x", uint32(mask[i]>>32), uint32(mask[i])))
	}
	return strings.Join(words, ",")
}
