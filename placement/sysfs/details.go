package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"gorun/placement"
)

// errDevices says why a machine is not described in detail.
var errDevices = errors.New("it has GPUs or RDMA devices, whose places are not described")

// ReadDetails reads the topology of this machine with all that the kernel tells of it, or
// says why there is something that it does not tell. GPUs and RDMA devices are such.
func ReadDetails() (placement.Topology, placement.Details, error) {
	allowed, err := Affinity()
	if err != nil {
		return placement.Topology{}, placement.Details{}, err
	}
	return ReadDetailsFS(disk("/"), allowed)
}

// ReadDetailsFS reads a machine from a file tree, as [ReadFS] does.
func ReadDetailsFS(root fs.FS, allowed placement.CPUSet) (placement.Topology, placement.Details, error) {
	r := &reader{root: root, needs: Needs{Topology: true}, machine: placement.Machine{CPUs: allowed}}
	for _, class := range []string{"infiniband", "cxi"} { // cxi is HPE's Slingshot
		if len(r.names("sys/class/"+class)) > 0 {
			return placement.Topology{}, placement.Details{}, errDevices
		}
	}
	if r.readGPUs(r.needs); len(r.machine.GPUs) > 0 {
		return placement.Topology{}, placement.Details{}, errDevices
	}
	r.machine.Notes = nil // what is strange about no GPUs
	r.readTopology()
	d := r.details()
	if len(r.machine.Notes) > 0 {
		return placement.Topology{}, placement.Details{}, errors.New(r.machine.Notes[0])
	}
	return *r.machine.Topology, d, nil
}

// details reads them after the topology.
func (r *reader) details() placement.Details {
	t := r.machine.Topology
	return placement.Details{
		Allowed:  r.cpuset(),
		Packages: r.kernelNumbers("physical_package_id", func(c placement.CPU) int { return c.Package }),
		Dies:     r.kernelNumbers("die_id", func(c placement.CPU) int { return c.Die }),
		Cores:    r.kernelNumbers("core_id", func(c placement.CPU) int { return c.Core }),
		Caches:   newCacheReader(r, t.CPUs).caches(),
	}
}

// kernelNumbers asks for each object of a kind what the kernel calls it.
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

// cpuset returns the online CPUs that the cpuset of this process has: all without one. A
// group that has no files of its own has those of the group above it.
func (r *reader) cpuset() placement.CPUSet {
	var ids []int
	for _, cpu := range r.machine.Topology.CPUs {
		ids = append(ids, cpu.ID)
	}
	online := placement.NewCPUSet(ids...)
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
	return online.Intersection(found.Union(r.machine.CPUs)) // what runs on a CPU may
}

// cacheReader finds the caches.
type cacheReader struct {
	*cpuReader
	cpus    []placement.CPU
	folders map[int][4]string          // by the kind of a CPU, then by level
	like    map[string]placement.Cache // sizes by kind and folder: the same for all
}

func newCacheReader(r *reader, cpus []placement.CPU) *cacheReader {
	c := &cacheReader{
		cpuReader: &cpuReader{reader: r}, cpus: cpus, folders: map[int][4]string{},
		like: map[string]placement.Cache{},
	}
	for _, cpu := range cpus {
		c.ids = append(c.ids, cpu.ID)
		for len(c.at) <= cpu.ID {
			c.at = append(c.at, -1)
		}
		c.at[cpu.ID] = len(c.ids) - 1
	}
	return c
}

// caches returns those of all levels. Which CPUs share one of level 2 or 3 the topology knows.
func (c *cacheReader) caches() (all []placement.Cache) {
	l1 := c.group(func(cpu int) (placement.CPUSet, bool) {
		if folder := c.folder(cpu, 1); folder != "" {
			return c.list("cache/" + folder + "/shared_cpu_list")(cpu)
		}
		return placement.CPUSet{}, false
	})
	l2, l3 := make(level, len(l1)), make(level, len(l1))
	for i, cpu := range c.cpus {
		l2[i], l3[i] = cpu.L2, cpu.L3
	}
	for i, l := range []level{l1, l2, l3} {
		sets := c.members(l)
		for at, n := range l {
			if set := sets[n]; n >= 0 && set.Len() > 0 {
				all = append(all, c.cache(i+1, c.ids[at], set))
				delete(sets, n)
			}
		}
	}
	return all
}

// folder is where a CPU has its cache of a level, "" without one.
func (c *cacheReader) folder(cpu, level int) string {
	kind := c.cpus[c.at[cpu]].Kind
	if _, known := c.folders[kind]; !known {
		c.folders[kind] = c.cacheFolders(cpu)
	}
	return c.folders[kind][level]
}

// cache describes a CPU's cache of a level.
func (c *cacheReader) cache(level, cpu int, shared placement.CPUSet) placement.Cache {
	dir := cpuDir + "/cpu" + strconv.Itoa(cpu) + "/cache/" + c.folder(cpu, level)
	key := fmt.Sprint(c.cpus[c.at[cpu]].Kind, " ", level)
	found, known := c.like[key]
	if !known {
		size, _ := c.text(dir + "/size") // "2048K"
		kib, _ := strconv.ParseInt(strings.TrimSuffix(size, "K"), 10, 32)
		kind, _ := c.text(dir + "/type")
		found = placement.Cache{Level: level, Size: kib << 10, Unified: kind == "Unified"}
		found.Line, _ = c.reader.number(dir + "/coherency_line_size")
		// one set is what those say who do not know
		if sets, _ := c.reader.number(dir + "/number_of_sets"); sets > 1 && found.Line > 0 {
			found.Ways = int(found.Size) / found.Line / sets
		}
		c.like[key] = found
	}
	found.CPUs, found.ID = shared, -1
	if id, ok := c.reader.number(dir + "/id"); ok {
		found.ID = id
	}
	return found
}
