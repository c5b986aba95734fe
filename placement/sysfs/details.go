package sysfs

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"gorun/placement"
)

// errDevices is the reason for not describing a machine in detail.
var errDevices = errors.New("its GPUs or RDMA devices have unknown places")

// ReadDetails reads the topology of this machine with all details that the kernel reports. It returns
// an error if the machine has devices that it cannot describe: GPUs or RDMA devices.
func ReadDetails() (placement.Topology, placement.Details, error) {
	allowed, err := Affinity()
	if err != nil {
		return placement.Topology{}, placement.Details{}, err
	}
	return ReadDetailsFS(disk("/"), allowed)
}

// ReadDetailsFS is like ReadDetails, for a file tree as in [ReadFS].
func ReadDetailsFS(root fs.FS, allowed placement.CPUSet) (placement.Topology, placement.Details, error) {
	r := &reader{root: root, needs: Needs{Topology: true}, machine: placement.Machine{CPUs: allowed}}
	for _, class := range []string{"infiniband", "cxi"} { // cxi is HPE Slingshot
		if len(r.names("sys/class/"+class)) > 0 {
			return placement.Topology{}, placement.Details{}, errDevices
		}
	}
	if r.readGPUs(r.needs); len(r.machine.GPUs) > 0 {
		return placement.Topology{}, placement.Details{}, errDevices
	}
	r.machine.Notes = nil // discard notes about missing GPUs
	r.readTopology()
	d := r.details()
	if len(r.machine.Notes) > 0 {
		return placement.Topology{}, placement.Details{}, errors.New(r.machine.Notes[0])
	}
	return *r.machine.Topology, d, nil
}

// details requires the topology.
func (r *reader) details() placement.Details {
	t := r.machine.Topology
	ids := make([]int, len(t.CPUs))
	for i, cpu := range t.CPUs {
		ids[i] = cpu.ID
	}
	return placement.Details{
		Allowed:  r.cpuset(placement.NewCPUSet(ids...)),
		Packages: r.kernelNumbers("physical_package_id", func(c placement.CPU) int { return c.Package }),
		Dies:     r.kernelNumbers("die_id", func(c placement.CPU) int { return c.Die }),
		Cores:    r.kernelNumbers("core_id", func(c placement.CPU) int { return c.Core }),
		Caches:   r.caches(t.CPUs, ids),
	}
}

// kernelNumbers reads the kernel's number of each object of a kind.
func (r *reader) kernelNumbers(file string, object func(placement.CPU) int) map[int]int {
	numbers, asked := map[int]int{}, map[int]bool{-1: true}
	for _, cpu := range r.machine.Topology.CPUs {
		n := object(cpu)
		if asked[n] {
			continue
		}
		asked[n] = true
		if id, ok := r.number(cpuDir + "/cpu" + strconv.Itoa(cpu.ID) + "/topology/" + file); ok && id >= 0 {
			numbers[n] = id
		}
	}
	return numbers
}

// cpuset returns the online CPUs in the cpuset of this process, or all online CPUs if there is no
// cpuset. A group without cpuset files has the cpuset of its parent.
func (r *reader) cpuset(online placement.CPUSet) placement.CPUSet {
	table, _ := r.text("proc/self/cgroup")
	m, ok := member(table, "cpuset")
	if !ok {
		return online
	}
	names := []string{"cpuset.effective_cpus", "cpuset.cpus"}
	if m.v2 {
		names = []string{"cpuset.cpus.effective"}
	}
	var found placement.CPUSet
	r.climb(m, func(dir string) {
		for _, name := range names {
			if found.Len() == 0 {
				found, _ = r.cpus(path.Join(dir, name))
			}
		}
	})
	if found.Len() == 0 {
		return online
	}
	return online.Intersection(found.Union(r.machine.CPUs)) // the process is running on its allowed CPUs
}

// caches returns the caches of all levels. The topology already has the CPUs that share an L2 or L3
// cache.
func (r *reader) caches(cpus []placement.CPU, ids []int) (all []placement.Cache) {
	c := newCPUReader(r, ids)
	for i, cpu := range cpus {
		c.kinds[i] = cpu.Kind
	}
	like := map[[2]int]placement.Cache{} // sizes by level and kind are the same for all
	l1 := c.group(c.sharing(1))
	l2, l3 := make(level, len(l1)), make(level, len(l1))
	for i, cpu := range cpus {
		l2[i], l3[i] = cpu.L2, cpu.L3
	}
	for i, l := range []level{l1, l2, l3} {
		sets := c.members(l)
		for at, n := range l {
			if set := sets[n]; n >= 0 && set.Len() > 0 {
				kind := [2]int{i + 1, c.kinds[at]}
				cache, known := like[kind]
				dir := cpuDir + "/cpu" + strconv.Itoa(ids[at]) + "/cache/" + c.folder(ids[at], i+1)
				if !known {
					cache = r.cache(i+1, dir)
					like[kind] = cache
				}
				cache.CPUs, cache.ID = set, -1
				if id, ok := r.number(dir + "/id"); ok {
					cache.ID = id
				}
				all = append(all, cache)
				delete(sets, n)
			}
		}
	}
	return all
}

// cache reads the attributes of a cache.
func (r *reader) cache(level int, dir string) placement.Cache {
	size, _ := r.text(dir + "/size") // such as "2048K"
	kib, _ := strconv.ParseInt(strings.TrimSuffix(size, "K"), 10, 32)
	kind, _ := r.text(dir + "/type")
	found := placement.Cache{Level: level, Size: kib << 10, Unified: kind == "Unified"}
	found.Line, _ = r.number(dir + "/coherency_line_size")
	// one set means unknown
	if sets, _ := r.number(dir + "/number_of_sets"); sets > 1 && found.Line > 0 {
		found.Ways = int(found.Size) / found.Line / sets
	}
	return found
}
