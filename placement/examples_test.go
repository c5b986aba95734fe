package placement

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the example machines")

func TestExamplesAreBuilt(t *testing.T) {
	for name, b := range built {
		t.Run(name, func(t *testing.T) {
			want := b.make()
			text := writeExample(t, b.about, want)
			file := filepath.FromSlash(exampleDir + "/" + name + ".json")
			if *update {
				require.NoError(t, os.WriteFile(file, text, 0o644))
			}
			have, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(text), string(have), "run `go test ./placement -run TestExamplesAreBuilt -update`")
			got, err := Example(name)
			if assert.NoError(t, err) && !*update { // what is embedded is older
				assert.Equal(t, want, got)
			}
		})
	}
	if !*update {
		assert.Equal(t, slices.Sorted(maps.Keys(built)), Examples())
	}
}

func TestUnknownExample(t *testing.T) {
	_, err := Example("dgx")
	assert.ErrorContains(t, err,
		`no example machine is called "dgx"; there are azure-ndh100, cloud-8gpu-vm, container, dgx-a100, `)
	about, err := ExampleAbout("one")
	require.NoError(t, err)
	assert.Equal(t, "machine with one CPU", about)
}

// Each example is a machine that there could be.
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
				online = set(strings.TrimPrefix(fmt.Sprint(online, ",", cpu.ID), ","))
			}
			for cpu := m.CPUs.next(0); cpu >= 0; cpu = m.CPUs.next(cpu + 1) {
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

// The paths between GPUs and to the interfaces are those that the machines'
// makers print.
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
	again, err := parseColumn(writeColumn(column))
	require.NoError(t, err)
	assert.Equal(t, column, again)
	for _, wrong := range []string{"x", "0*", "0*-1", "3-1", "0-4:0", "0-4:x", "99999999"} {
		_, err := parseColumn(wrong)
		assert.Error(t, err, wrong)
	}
	_, err = cpuTable{Threads: []string{"0-3"}, Package: "0*3"}.rows()
	assert.EqualError(t, err, "core 0 has no entry in column 1 of the CPUs")
}

// writeExample writes a machine's file: a line for each device and node.
func writeExample(t *testing.T, about string, m Machine) []byte {
	topology := *m.Topology
	file := exampleFile{About: about, CPUs: tableOf(topology.CPUs), Machine: m}
	topology.CPUs, file.Machine.Topology = nil, &topology
	file.leaveOut(&topology)
	compact, err := json.Marshal(file)
	require.NoError(t, err)
	var b bytes.Buffer
	depth, quoted := 0, false
	for i, c := range compact {
		if c == '"' && compact[i-1] != '\\' {
			quoted = !quoted
		}
		b.WriteByte(c)
		if quoted {
			continue
		}
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		next := byte(0)
		if i+1 < len(compact) {
			next = compact[i+1]
		}
		if c == ',' && (depth <= 2 || depth == 3 && next != '{' || next == '{' && depth <= 4) || c == '[' && next == '{' &&
			depth <= 4 {
			b.WriteString("\n" + strings.Repeat(" ", depth))
		}
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// leaveOut is the way back from exampleFile.complete.
func (f *exampleFile) leaveOut(topology *Topology) {
	withoutNear := func(b *Bus) *Bus {
		c := *b
		c.Near = CPUSet{}
		return &c
	}
	f.Machine.GPUs = slices.Clone(f.Machine.GPUs)
	for i := range f.Machine.GPUs {
		gpu := &f.Machine.GPUs[i]
		gpu.Bus = withoutNear(gpu.Bus)
		if len(gpu.Links) > 0 {
			f.Mesh = &Link{Kind: gpu.Links[0].Kind, Count: gpu.Links[0].Count}
		}
		gpu.Links = nil
	}
	topology.NICs = slices.Clone(topology.NICs)
	for i := range topology.NICs {
		topology.NICs[i].Bus = withoutNear(topology.NICs[i].Bus)
	}
}

// tableOf is the way back from cpuTable.rows.
func tableOf(cpus []CPU) cpuTable {
	cores := 0
	for _, c := range cpus {
		cores = max(cores, c.Core+1)
	}
	var columns [6][]int
	for i := range columns {
		columns[i] = make([]int, cores)
	}
	var threads [][]int
	for _, c := range cpus {
		for len(threads) <= c.Thread {
			threads = append(threads, slices.Repeat([]int{-1}, cores))
		}
		threads[c.Thread][c.Core] = c.ID
		for i, v := range []int{c.Package, c.Node, c.Die, c.L3, c.L2, c.Kind} {
			columns[i][c.Core] = v
		}
	}
	table := cpuTable{
		Package: writeColumn(columns[0]), Node: writeColumn(columns[1]), Die: writeColumn(columns[2]),
		L3: writeColumn(columns[3]), L2: writeColumn(columns[4]),
	}
	if slices.Max(columns[5]) > 0 {
		table.Kind = writeColumn(columns[5])
	}
	for _, ids := range threads {
		table.Threads = append(table.Threads, writeColumn(ids))
	}
	return table
}

// writeColumn writes a column in few words, each of which reaches as far as it can.
func writeColumn(column []int) string {
	var words []string
	for len(column) > 0 {
		word, n := longestWord(column)
		words = append(words, word)
		column = column[n:]
	}
	return strings.Join(words, " ")
}

func longestWord(column []int) (word string, n int) {
	spell := func(v int) string {
		if v < 0 {
			return "-"
		}
		return fmt.Sprint(v)
	}
	times := 1
	for times < len(column) && column[times] == column[0] {
		times++
	}
	word, n = spell(column[0]), 1
	if times > 1 {
		word, n = fmt.Sprintf("%s*%d", word, times), times
	}
	if column[0] < 0 {
		return word, n
	}
	for _, step := range []int{1, 2} {
		count := times
		if step > 1 {
			count = 1
		}
		length := count
		for length+count <= len(column) && slices.Equal(column[length:length+count],
			slices.Repeat([]int{column[0] + length/count*step}, count)) &&
			(length+count == len(column) || column[length+count] != column[length]) {
			length += count
		}
		if length <= n || length < 3 {
			continue
		}
		word, n = fmt.Sprintf("%d-%d", column[0], column[length-1]), length
		if step > 1 {
			word += fmt.Sprintf(":%d", step)
		}
		if count > 1 {
			word += fmt.Sprintf("*%d", count)
		}
	}
	return word, n
}
