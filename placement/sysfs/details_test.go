package sysfs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
	"gorun/placement/sysfs/sysfstest"
)

// withoutDevices returns an example machine and its files.
func withoutDevices(t *testing.T, name string) (placement.Machine, fakeTree) {
	t.Helper()
	m := example(t, name)
	m.GPUs, m.Topology.NICs = nil, nil
	tree := fakeTree{MapFS: treeOf(m)}
	tree.ForHwloc(m)
	return m, tree
}

func TestDetails(t *testing.T) {
	m, tree := withoutDevices(t, "hybrid")
	topology, d, err := ReadDetailsFS(tree.MapFS, m.CPUs)
	require.NoError(t, err)
	assert.Equal(t, *m.Topology, topology)
	assert.Equal(t, map[int]int{0: 0}, d.Packages)
	assert.Len(t, d.Cores, m.Cores())
	assert.Equal(t, m.CPUs, d.Allowed)
	first, last := d.Caches[0], d.Caches[len(d.Caches)-1]
	assert.Equal(t, placement.Cache{
		Level: 1, CPUs: placement.CPUSetOf([]uint64{3}), ID: -1, Size: 1 << 20, Line: 64,
		Ways: 16,
	}, first)
	assert.Equal(t, 3, last.Level)
	assert.True(t, last.Unified)
}

// Many virtual machines lack the files for hwloc's cache sizes.
func TestUnknownDetailsAreOmitted(t *testing.T) {
	m := example(t, "hybrid")
	m.GPUs, m.Topology.NICs = nil, nil
	_, d, err := ReadDetailsFS(treeOf(m), m.CPUs)
	require.NoError(t, err)
	assert.Empty(t, d.Packages)
	assert.Empty(t, d.Cores)
	assert.Zero(t, d.Caches[0].Size)
	assert.Equal(t, -1, d.Caches[0].ID)
}

func TestAllowedAreThoseOfTheCPUSet(t *testing.T) {
	allowed := placement.CPUSetOf([]uint64{0xf})
	for name, put := range map[string]func(sysfstest.Tree){
		"version 2": func(tree sysfstest.Tree) { tree.Put("sys/fs/cgroup/cpuset.cpus.effective", "0-3") },
		"of the group above": func(tree sysfstest.Tree) {
			tree.Put("proc/self/cgroup", "0::/a/b")
			tree.Put("sys/fs/cgroup/a/b/cgroup.procs", 1)
			tree.Put("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3")
		},
		"version 1": func(tree sysfstest.Tree) {
			tree.Put("proc/self/cgroup", "3:cpuset:/a")
			tree.Put("sys/fs/cgroup/cpuset/a/cgroup.procs", 1)
			tree.Put("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-3")
		},
		"a CPU on which this process may run": func(tree sysfstest.Tree) {
			tree.Put("sys/fs/cgroup/cpuset.cpus.effective", "1-3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, tree := withoutDevices(t, "hybrid")
			put(tree)
			_, d, err := ReadDetailsFS(tree.MapFS, placement.CPUSetOf([]uint64{1}))
			require.NoError(t, err)
			assert.Equal(t, allowed, d.Allowed)
		})
	}
}

// As in hwloc, a process bound to few CPUs may use the other CPUs of its cpuset.
func TestBindingDoesNotCount(t *testing.T) {
	m, tree := withoutDevices(t, "hybrid")
	_, d, err := ReadDetailsFS(tree.MapFS, placement.CPUSetOf([]uint64{1}))
	require.NoError(t, err)
	assert.Equal(t, m.CPUs, d.Allowed)
}

func TestNoDetailsAreBetterThanPoorOnes(t *testing.T) {
	m := example(t, "dgx-h100")
	_, _, err := ReadDetailsFS(treeOf(m), m.CPUs)
	require.ErrorIs(t, err, errDevices)
	m.GPUs = nil
	_, _, err = ReadDetailsFS(treeOf(m), m.CPUs)
	require.ErrorIs(t, err, errDevices, "its interfaces")
	m, tree := withoutDevices(t, "hybrid")
	delete(tree.MapFS, cpuDir+"/online")
	_, _, err = ReadDetailsFS(tree.MapFS, m.CPUs)
	require.ErrorContains(t, err, "the online CPUs are unknown")
}
