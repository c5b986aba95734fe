package sysfs

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/placement"
)

// hwlocObject is an object of hwloc's tree, in lstopo's XML.
type hwlocObject struct {
	Type     string        `xml:"type,attr"`
	Number   int           `xml:"os_index,attr"` // the kernel's
	Children []hwlocObject `xml:"object"`
}

// The logical numbers are those of hwloc, by which mpirun counts.
func TestNumbersAreThoseOfHwloc(t *testing.T) {
	lstopo := testneeds.Program(t, "hwloc", "lstopo-no-graphics")
	for _, name := range []string{"offline", "hybrid"} {
		t.Run(name, func(t *testing.T) {
			want := example(t, name)
			tree := fakeTree{treeOf(want)}
			tree.addForHwloc(want.Topology)
			command := exec.Command(lstopo, "--of", "xml", "--no-io", "--whole-system", "-")
			command.Env = append(os.Environ(), "HWLOC_FSROOT="+onDisk(t, tree.MapFS), "HWLOC_COMPONENTS=linux,stop")
			out, err := command.Output()
			require.NoError(t, err)
			var topology struct {
				Objects []hwlocObject `xml:"object"`
			}
			require.NoError(t, xml.Unmarshal(out, &topology))

			counts, found := map[string]int{}, 0
			var walk func(objects []hwlocObject, above map[string]int)
			walk = func(objects []hwlocObject, above map[string]int) {
				for _, o := range objects {
					at := map[string]int{o.Type: counts[o.Type]}
					for k, v := range above {
						at[k] = v
					}
					counts[o.Type]++
					if o.Type == "PU" {
						found++
						cpu := want.Topology.CPU(o.Number)
						require.NotNil(t, cpu, "hwloc sees CPU %d", o.Number)
						l3, hasL3 := at["L3Cache"]
						if !hasL3 {
							l3 = -1
						}
						got := placement.CPU{
							ID: o.Number, Package: at["Package"], Node: cpu.Node, Die: cpu.Die,
							L3: l3, L2: at["L2Cache"], Core: at["Core"], Thread: cpu.Thread, Kind: cpu.Kind,
						}
						assert.Equal(t, got, *cpu)
					}
					walk(o.Children, at)
				}
			}
			walk(topology.Objects, nil)
			assert.Len(t, want.Topology.CPUs, found)
		})
	}
}

// addForHwloc adds the files that hwloc reads and gorun does not: masks instead
// of lists, and numbers beside them.
func (t fakeTree) addForHwloc(topology *placement.Topology) {
	masks := map[string]string{"core_cpus_list": "core_cpus", "package_cpus_list": "package_cpus", "shared_cpu_list": "shared_cpu_map", "cpulist": "cpumap"}
	for name, file := range t.MapFS {
		if mask := masks[path.Base(name)]; mask != "" {
			set, _ := placement.ParseCPUSet(string(file.Data))
			word := 0
			for _, cpu := range members(set) {
				word |= 1 << cpu // the machines of this test have 32 CPUs at most
			}
			t.put(path.Dir(name)+"/"+mask, fmt.Sprintf("%08x", word))
		}
		if strings.HasSuffix(name, "/shared_cpu_list") {
			t.put(path.Dir(name)+"/size", "1024K")
		}
	}
	for _, cpu := range topology.CPUs {
		dir := cpuDir + "/cpu" + itoa(cpu.ID) + "/topology"
		t.put(dir+"/physical_package_id", cpu.Package)
		t.put(dir+"/core_id", cpu.Core)
	}
}
