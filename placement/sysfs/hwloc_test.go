package sysfs

import (
	"encoding/xml"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
	"gorun/placement/sysfs/sysfstest"
)

// hwlocObject is an object of hwloc's tree in the XML of lstopo.
type hwlocObject struct {
	Type     string        `xml:"type,attr"`
	Number   int           `xml:"os_index,attr"` // the kernel's number
	Children []hwlocObject `xml:"object"`
}

// The logical numbers are equal to hwloc's, because mpirun uses those.
func TestNumbersAreThoseOfHwloc(t *testing.T) {
	lstopo := testneeds.Program(t, "hwloc", "lstopo-no-graphics")
	for _, name := range []string{"offline", "hybrid"} {
		t.Run(name, func(t *testing.T) { compareWithHwloc(t, lstopo, example(t, name)) })
	}
	rng := testneeds.Rand(t)
	for i := range testneeds.Count(4, 200) {
		t.Run(fmt.Sprint("random ", i), func(t *testing.T) { compareWithHwloc(t, lstopo, randomMachine(rng)) })
	}
}

// randomMachine creates a machine with at most 32 CPUs, arbitrary CPU numbers, and some offline CPUs.
func randomMachine(rng *rand.Rand) placement.Machine {
	var size [6]int // packages, their nodes, their L3 caches, …
	total := 64
	for total > 32 || total < 2 {
		total = 1
		for i := range size {
			size[i] = 1 + rng.IntN(3)
			total *= size[i]
		}
	}
	numbers := rng.Perm(total)
	topology := &placement.Topology{}
	nodes := make([][]int, size[0]*size[1])
	var online, off []int
	for i, id := range numbers {
		if i > 0 && rng.IntN(6) == 0 {
			off = append(off, id)
			continue
		}
		core := i / size[5]
		l2 := core / size[4]
		l3 := l2 / size[3]
		node := l3 / size[2]
		nodes[node] = append(nodes[node], id)
		online = append(online, id)
		topology.CPUs = append(topology.CPUs, placement.CPU{
			ID: id, Package: node / size[1], Die: node / size[1],
			Node: node, L3: l3, L2: l2, Core: core,
		})
	}
	for i := range nodes {
		distances := make([]int, len(nodes))
		for j := range distances {
			distances[j] = 12
			if i/size[1] != j/size[1] {
				distances[j] = 21
			}
		}
		distances[i] = 10
		topology.Nodes = append(topology.Nodes, placement.NUMANode{
			ID: i, CPUs: placement.NewCPUSet(nodes[i]...), Memory: 1 << 30,
			Distances: distances,
		})
	}
	topology.Offline = placement.NewCPUSet(off...)
	return placement.Machine{CPUs: placement.NewCPUSet(online...), Topology: topology}
}

// compareWithHwloc reads the same files with both.
func compareWithHwloc(t *testing.T, lstopo string, m placement.Machine) {
	tree := fakeTree{MapFS: treeOf(m)}
	sysfstest.Tree(tree).ForHwloc(m)
	got := ReadFS(tree.MapFS, m.CPUs, everything).Topology

	command := exec.Command(lstopo, "--of", "xml", "--no-io", "--whole-system", "-")
	command.Env = append(os.Environ(), "HWLOC_FSROOT="+onDisk(t, tree.MapFS), "HWLOC_COMPONENTS=linux,stop")
	out, err := command.Output()
	require.NoError(t, err)
	var want struct {
		Objects []hwlocObject `xml:"object"`
	}
	require.NoError(t, xml.Unmarshal(out, &want))

	counts, found := map[string]int{}, 0
	var walk func(objects []hwlocObject, above map[string]int)
	walk = func(objects []hwlocObject, above map[string]int) {
		for _, o := range objects {
			at := maps.Clone(above)
			at[o.Type] = counts[o.Type]
			counts[o.Type]++
			if o.Type == "PU" {
				found++
				cpu := got.CPU(o.Number)
				require.NotNil(t, cpu, "hwloc sees CPU %d", o.Number)
				want := *cpu
				want.Package, want.L3, want.L2, want.Core = at["Package"], at["L3Cache"], at["L2Cache"], at["Core"]
				assert.Equal(t, want, *cpu)
			}
			walk(o.Children, at)
		}
	}
	walk(want.Objects, map[string]int{"L3Cache": -1})
	assert.Len(t, got.CPUs, found)
}
