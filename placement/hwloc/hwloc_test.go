package hwloc

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
	"gorun/placement/sysfs"
	"gorun/placement/sysfs/sysfstest"
)

// bare returns an example machine without its devices.
func bare(t *testing.T, name string) placement.Machine {
	t.Helper()
	m, err := placement.Example(name)
	require.NoError(t, err)
	m.GPUs, m.Topology.NICs = nil, nil
	return m
}

// files returns the kernel's files for a machine.
func files(m placement.Machine) sysfstest.Tree {
	tree := sysfstest.Tree{MapFS: sysfstest.TreeOf(m)}
	tree.ForHwloc(m)
	return tree
}

func xmlOf(t *testing.T, tree sysfstest.Tree, m placement.Machine) string {
	t.Helper()
	topology, details, err := sysfs.ReadDetailsFS(tree.MapFS, m.CPUs)
	require.NoError(t, err)
	return XML(topology, details)
}

// lister is compiled from testdata/objects.c.
type lister string

func buildLister(t *testing.T) lister {
	t.Helper()
	testneeds.Program(t, "hwloc", "mpicc.openmpi") // the package depends on hwloc's headers and library
	gcc := testneeds.Program(t, "hwloc", "gcc")
	program := filepath.Join(t.TempDir(), "objects")
	out, err := exec.Command(gcc, "-Wall", "-Werror", "-o", program, "testdata/objects.c", "-lhwloc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return lister(program)
}

// list returns the output lines of the program, and requires that hwloc reports no error.
func (l lister) list(t *testing.T, environ []string, args ...string) []string {
	t.Helper()
	command := exec.Command(string(l), args...)
	command.Env = append(os.Environ(), "HWLOC_HIDE_ERRORS=0", "HWLOC_XML_VERBOSE=1")
	command.Env = append(command.Env, environ...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	require.NoError(t, err, "%s", &complaints)
	require.Empty(t, complaints.String())
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// compare runs hwloc on a machine's files and on the generated XML.
func (l lister) compare(t *testing.T, m placement.Machine, tree sysfstest.Tree) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, sysfstest.OnDisk(dir, tree.MapFS))
	file := filepath.Join(t.TempDir(), "topology.xml")
	require.NoError(t, os.WriteFile(file, []byte(xmlOf(t, tree, m)), 0o600))
	for _, kind := range []string{"allowed", "all"} {
		want := l.list(t, []string{"HWLOC_FSROOT=" + dir, "HWLOC_COMPONENTS=linux,stop"}, kind)
		got := l.list(t, nil, kind, file)
		missing, extra := without(want, got), without(got, want)
		assert.Empty(t, missing[:min(20, len(missing))], "%s: hwloc finds these and the XML lacks them", kind)
		assert.Empty(t, extra[:min(20, len(extra))], "%s: the XML has these and hwloc does not find them", kind)
		if len(missing)+len(extra) == 0 {
			assert.Equal(t, want, got, "the order")
		}
	}
}

// without returns the lines of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

func TestHwlocImportsWhatItWouldFind(t *testing.T) {
	l := buildLister(t)
	examples := []string{"one", "offline", "hybrid", "gb200-tray", "container"}
	if testneeds.Soak() { // large machines have ten thousand files
		examples = placement.Examples()
	}
	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			m := bare(t, name)
			l.compare(t, m, files(m))
		})
	}
	rng := testneeds.Rand(t)
	for i := range testneeds.Count(6, 300) {
		t.Run(fmt.Sprint("random ", i), func(t *testing.T) {
			m := randomMachine(rng)
			l.compare(t, m, files(m))
		})
	}
	for without := range 3 {
		t.Run(fmt.Sprint(without, " nodes without CPUs"), func(t *testing.T) {
			m := bare(t, "hybrid")
			for range without {
				for i := range m.Topology.Nodes {
					m.Topology.Nodes[i].Distances = append(m.Topology.Nodes[i].Distances, 20)
				}
				n := placement.NUMANode{
					ID: len(m.Topology.Nodes), Memory: 1 << 30,
					Distances: slices.Repeat([]int{20}, len(m.Topology.Nodes)+1),
				}
				n.Distances[n.ID] = 10
				m.Topology.Nodes = append(m.Topology.Nodes, n)
			}
			l.compare(t, m, files(m))
		})
	}
}

// randomMachine returns a machine with up to 96 CPUs, arbitrary CPU numbers, and some offline CPUs.
func randomMachine(rng *rand.Rand) placement.Machine {
	var size [7]int // packages, dies per package, NUMA nodes per die, L3 caches per node, …
	total := 0
	for total < 2 || total > 96 {
		total = 1
		for i := range size {
			size[i] = 1 + rng.IntN(3)
			total *= size[i]
		}
	}
	topology := &placement.Topology{}
	var online, off []int
	nodes := make([][]int, size[0]*size[1]*size[2])
	for i, id := range rng.Perm(total) {
		if i > 0 && rng.IntN(6) == 0 {
			off = append(off, id)
			continue
		}
		c := i / size[6]
		l2 := c / size[5]
		l3 := l2 / size[4]
		n := l3 / size[3]
		d := n / size[2]
		online = append(online, id)
		nodes[n] = append(nodes[n], id)
		topology.CPUs = append(topology.CPUs, placement.CPU{
			ID: id, Package: d / size[1], Die: d, Node: n, L3: l3, L2: l2,
			Core: c,
		})
	}
	slices.SortFunc(topology.CPUs, func(a, b placement.CPU) int { return a.ID - b.ID })
	for i, cpus := range nodes {
		distances := slices.Repeat([]int{20}, len(nodes))
		distances[i] = 10
		topology.Nodes = append(topology.Nodes, placement.NUMANode{
			ID: i, CPUs: placement.NewCPUSet(cpus...), Memory: 1 << 30,
			Distances: distances,
		})
	}
	topology.Offline = placement.NewCPUSet(off...)
	return placement.Machine{CPUs: placement.NewCPUSet(online...), Topology: topology}
}

var update = flag.Bool("update", false, "write the expected files")

// Golden files, checked by hand, cover an offline CPU, memory without CPUs, and two kinds of cores.
func TestXML(t *testing.T) {
	for _, name := range []string{"offline", "hybrid"} {
		m := bare(t, name)
		if name == "hybrid" {
			m.Topology.Nodes = append(m.Topology.Nodes, placement.NUMANode{ID: 2, Memory: 1 << 30, Distances: []int{20, 10}})
			m.Topology.Nodes[0].Distances = []int{10, 20}
		}
		got := xmlOf(t, files(m), m)
		file := "testdata/" + name + ".xml"
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), got)
	}
}

func TestBitmap(t *testing.T) {
	set, err := placement.ParseCPUSet("0,31,64")
	require.NoError(t, err)
	assert.Equal(t, "0x00000001,0x00000000,0x80000001", bitmap(set))
	assert.Equal(t, "0x0", bitmap(placement.CPUSet{}))
}

// Partially overlapping objects cannot be in one tree. The smaller one is omitted.
func TestWhatOverlapsIsLeftOut(t *testing.T) {
	m := bare(t, "hybrid")
	tree := files(m)
	topology, details, err := sysfs.ReadDetailsFS(tree.MapFS, m.CPUs)
	require.NoError(t, err)
	cpus := topology.CPUs
	require.GreaterOrEqual(t, len(cpus), 4)
	odd := func(ids ...int) placement.Cache {
		return placement.Cache{Level: 3, ID: -1, CPUs: placement.NewCPUSet(ids...)}
	}
	details.Caches = []placement.Cache{odd(cpus[0].ID, cpus[1].ID, cpus[2].ID), odd(cpus[2].ID, cpus[3].ID)}
	text := XML(topology, details)
	assert.Equal(t, 1, strings.Count(text, `type="L3Cache"`))
	assert.Equal(t, len(cpus), strings.Count(text, `type="PU"`))
}
