package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnknownExample(t *testing.T) {
	_, err := Example("dgx")
	assert.ErrorContains(t, err,
		`no example machine is named "dgx"; choose one of azure-ndh100, cloud-8gpu-vm, container, dgx-a100, `)
}

// Each example is a plausible machine.
func TestExamplesAreSound(t *testing.T) {
	for _, name := range Examples() {
		t.Run(name, func(t *testing.T) {
			m, err := Example(name)
			require.NoError(t, err)
			topology := m.Topology
			var online CPUSet
			for i, cpu := range topology.CPUs {
				require.True(t, i == 0 || topology.CPUs[i-1].ID < cpu.ID, "sorted")
				require.True(t, topology.Node(cpu.Node).CPUs.Has(cpu.ID), "CPU %d is in its node", cpu.ID)
				require.False(t, topology.Offline.Has(cpu.ID))
				online = online.With(cpu.ID)
			}
			for cpu := range m.CPUs.All() {
				assert.True(t, online.Has(cpu), "allowed CPU %d is online", cpu)
			}
			for i, node := range topology.Nodes {
				require.Len(t, node.Distances, len(topology.Nodes))
				assert.Equal(t, 10, node.Distances[i])
				for j := range topology.Nodes {
					assert.Equal(t, node.Distances[j], topology.Nodes[j].Distances[i],
						"nodes %d and %d are equally far from each other", i, j)
				}
			}
			addresses := map[string]bool{}
			for i, gpu := range m.GPUs {
				require.Equal(t, i, gpu.Index)
				require.True(t, i == 0 || m.GPUs[i-1].PCI < gpu.PCI, "GPUs are in the order of the PCI bus")
				addresses[gpu.PCI] = true
			}
			assertAddresses(t, m)
			for _, nic := range topology.NICs {
				require.False(t, addresses[nic.Bus.Address], "%s has its place alone", nic.Name)
				addresses[nic.Bus.Address] = true
			}
		})
	}
}

func assertAddresses(t *testing.T, m Machine) {
	buses := []*Bus{}
	for _, gpu := range m.GPUs {
		buses = append(buses, gpu.Bus)
	}
	for _, nic := range m.Topology.NICs {
		buses = append(buses, nic.Bus)
	}
	for _, bus := range buses {
		assert.Regexp(t, `^pci[0-9a-f]{4}:[0-9a-f]{2}$`, bus.Root)
		for _, address := range append(slices.Clone(bus.Bridges), bus.Address) {
			assert.Regexp(t, `^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`, address)
		}
	}
}

// The paths between GPUs and to the interfaces match the vendors' output.
func TestExamplePaths(t *testing.T) {
	tests := []struct {
		name string
		gpu  string   // from the first GPU to the others
		nics []string // from the first GPU, by interface
	}{
		{
			"dgx-a100", "X NV12 NV12 NV12 NV12 NV12 NV12 NV12",
			strings.Fields("PXB PXB SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS"),
		},
		{
			"dgx-h100", "X NV18 NV18 NV18 NV18 NV18 NV18 NV18",
			strings.Fields("PXB NODE NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS"),
		},
		{"pcie-8gpu", "X PIX NODE NODE SYS SYS SYS SYS", []string{"PIX", "SYS"}},
		{"cloud-8gpu-vm", "X NODE NODE NODE SYS SYS SYS SYS", []string{"NODE"}},
		{"mi300x", "X XGMI XGMI XGMI XGMI XGMI XGMI XGMI", strings.Fields("PXB NODE NODE NODE SYS SYS SYS SYS")},
		{"p5", "X NV18 NV18 NV18 NV18 NV18 NV18 NV18", strings.Fields("NODE PIX PIX PIX PIX NODE NODE NODE NODE")},
		{"gb200-tray", "X NV18 NV18 NV18", strings.Fields("NODE NODE NODE NODE SYS SYS SYS SYS")},
		{"azure-ndh100", "X NV18 NV18 NV18 NV18 NV18 NV18 NV18", strings.Fields("NODE NODE NODE NODE NODE SYS SYS SYS SYS")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Example(test.name)
			require.NoError(t, err)
			var gpus, nics []string
			for _, gpu := range m.GPUs {
				gpus = append(gpus, PathBetweenGPUs(m.GPUs[0], gpu).String())
			}
			for _, nic := range m.Topology.NICs {
				nics = append(nics, PathBetween(m.GPUs[0].Bus, nic.Bus).String())
			}
			assert.Equal(t, test.gpu, strings.Join(gpus, " "))
			assert.Equal(t, test.nics, nics[:len(test.nics)])
		})
	}
}

func TestColumns(t *testing.T) {
	column, err := parseColumn(" 5 0-3 0-6:2 0*3 0-1*2 -*2 7")
	require.NoError(t, err)
	assert.Equal(t, []int{5, 0, 1, 2, 3, 0, 2, 4, 6, 0, 0, 0, 0, 0, 1, 1, -1, -1, 7}, column)
	for _, wrong := range []string{"x", "0*", "0*-1", "3-1", "0-4:0", "0-4:x", "99999999"} {
		_, err := parseColumn(wrong)
		assert.Error(t, err, wrong)
	}
	_, err = cpuTable{Threads: []string{"0-3"}, Package: "0*3"}.rows()
	assert.EqualError(t, err, "core 0 has no entry in column 1 of the CPUs")
}
