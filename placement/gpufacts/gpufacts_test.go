package gpufacts

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// host has two NUMA nodes with four CPUs each, and a third node with memory only.
func host(gpus ...placement.GPU) placement.Machine {
	return placement.Machine{GPUs: gpus, Topology: &placement.Topology{Nodes: []placement.NUMANode{
		{ID: 0, CPUs: cpus(0, 1, 2, 3)}, {ID: 1, CPUs: cpus(4, 5, 6, 7)}, {ID: 2},
	}}}
}

func cpus(list ...int) placement.CPUSet {
	mask := []uint64{0}
	for _, cpu := range list {
		mask[0] |= 1 << cpu
	}
	return placement.CPUSetOf(mask)
}

func nvidia(index int, pci string, node int) placement.GPU {
	return placement.GPU{Index: index, PCI: pci, Vendor: placement.NVIDIA, Bus: &placement.Bus{Address: pci, Node: node}}
}

// The facts replace the values of a GPU. Values without facts are unchanged.
func TestMergeOneGPU(t *testing.T) {
	known := func(change func(*placement.GPU)) placement.GPU {
		g := nvidia(0, "a", 0)
		g.UUID, g.Name, g.MIG = "GPU-1", "H100", []string{"MIG-1"}
		if change != nil {
			change(&g)
		}
		return g
	}
	for name, test := range map[string]struct {
		reported GPU
		want     placement.GPU
		notes    []string
	}{
		"nothing": {GPU{PCI: "a"}, known(nil), nil},
		"everything": {
			GPU{PCI: "a", UUID: "GPU-2", Name: "H200", Memory: 141 << 30, MIG: []string{}, Used: new(true), MemoryNode: new(2)},
			known(func(g *placement.GPU) {
				g.UUID, g.Name, g.Memory, g.MIG, g.Used, g.MemoryNode = "GPU-2", "H200", 141<<30, []string{}, true, 2
			}), nil,
		},
		"a node with CPUs is no GPU's memory": {GPU{PCI: "a", MemoryNode: new(1)}, known(nil), nil},
		"nor is one that there is not":        {GPU{PCI: "a", MemoryNode: new(9)}, known(nil), nil},
		"near its node":                       {GPU{PCI: "a", Near: cpus(0, 1)}, known(nil), nil},
		"near to two nodes says nothing":      {GPU{PCI: "a", Near: cpus(3, 4)}, known(nil), nil},
		"near to CPUs that there are not, neither": {
			GPU{PCI: "a", Near: placement.CPUSetOf([]uint64{0, 1})}, known(nil), nil,
		},
		"near another": {
			GPU{PCI: "a", Near: cpus(5)},
			known(func(g *placement.GPU) { g.Bus = &placement.Bus{Address: "a", Node: 1, Near: cpus(4, 5, 6, 7)} }),
			[]string{"the kernel reports NUMA node 0 for GPU a, NVIDIA's library 1: gorun uses the latter"},
		},
		"links that are down": {
			GPU{PCI: "a", Down: 18},
			known(nil),
			[]string{"all 18 NVLinks of GPU a are down: on a machine with NVSwitch, check with `systemctl status " +
				"nvidia-fabricmanager`"},
		},
		"some links are down": {GPU{PCI: "a", Down: 1, Switched: 17}, known(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := host(known(nil))
			assert.Equal(t, test.notes, Merge(&m, Facts{GPUs: []GPU{test.reported}}))
			assert.Equal(t, []placement.GPU{test.want}, m.GPUs)
		})
	}
}

// A GPU has no position if there is no topology.
func TestMergeWithoutTopology(t *testing.T) {
	m := placement.Machine{GPUs: []placement.GPU{{PCI: "a", Vendor: placement.NVIDIA}}}
	assert.Empty(t, Merge(&m, Facts{GPUs: []GPU{{PCI: "a", Used: new(true), Near: cpus(1), MemoryNode: new(2)}}}))
	assert.Equal(t, []placement.GPU{{PCI: "a", Vendor: placement.NVIDIA, Used: true}}, m.GPUs)
}

func TestMergePairs(t *testing.T) {
	m := host(nvidia(0, "a", 0), nvidia(1, "b", 0), nvidia(2, "c", 1))
	peers := []placement.Peer{{PCI: "a", Access: placement.P2POK}}
	assert.Empty(t, Merge(&m, Facts{GPUs: []GPU{
		{PCI: "a", Switched: 18, Links: map[string]int{"c": 2, "nvswitch": 1}},
		{PCI: "b", Switched: 17, Peers: peers},
		{PCI: "c", Links: map[string]int{"a": 2}},
	}}))
	nvlink := func(peer string, count int) placement.Link {
		return placement.Link{Peer: peer, Kind: "nvlink", Count: count}
	}
	assert.Equal(t, []placement.Link{nvlink("b", 17), nvlink("c", 2)}, m.GPUs[0].Links)
	assert.Equal(t, []placement.Link{nvlink("a", 17)}, m.GPUs[1].Links)
	assert.Equal(t, peers, m.GPUs[1].Peers)
	assert.Equal(t, []placement.Link{nvlink("a", 2)}, m.GPUs[2].Links)
}

// GPUs that no file describes are inserted in PCI address order among NVIDIA's GPUs.
func TestMergeMissing(t *testing.T) {
	amd := placement.GPU{PCI: "0", Vendor: placement.AMD}
	m := host(nvidia(0, "b", 0), amd)
	assert.Empty(t, Merge(&m, Facts{GPUs: []GPU{{PCI: "c"}, {PCI: "a"}, {PCI: "0"}}}))
	var order []string
	for _, g := range m.GPUs {
		order = append(order, string(g.Vendor)+g.PCI)
	}
	assert.Equal(t, []string{"nvidia0", "nvidiaa", "nvidiab", "nvidiac", "amd0"}, order)
	assert.Equal(t, []int{0, 1, 2, 3, 0}, []int{
		m.GPUs[0].Index, m.GPUs[1].Index, m.GPUs[2].Index, m.GPUs[3].Index,
		m.GPUs[4].Index,
	})
}

func TestNeedsLibrary(t *testing.T) {
	named, nameless := nvidia(0, "a", 0), nvidia(1, "b", 0)
	named.UUID = "GPU-1"
	amd := placement.GPU{PCI: "0", Vendor: placement.AMD}
	for _, test := range []struct {
		what  string
		gpus  []placement.GPU
		signs Signs
		needs string // a subset of All, Users, Names, Links
	}{
		{"no GPU", nil, Signs{}, ""},
		{"another vendor's", []placement.GPU{amd, amd}, Signs{}, ""},
		{"hidden", nil, Signs{Hidden: true}, "AUN"},
		{"one with a name", []placement.GPU{named}, Signs{Hidden: true}, "AU"},
		{"divided", []placement.GPU{named}, Signs{Divided: true}, "AUN"},
		{"two", []placement.GPU{named, nameless}, Signs{}, "AUNL"},
	} {
		m, needs := host(test.gpus...), ""
		for _, w := range []struct {
			letter string
			query  Query
		}{
			{"A", Query{All: true}},
			{"U", Query{Users: true}},
			{"N", Query{Names: true}},
			{"L", Query{Links: true}},
			{"none", Query{}},
		} {
			if w.query.NeedsLibrary(m, test.signs) {
				needs += w.letter
			}
		}
		assert.Equal(t, test.needs, needs, test.what)
	}
}

func TestComplete(t *testing.T) {
	gone := errors.New("nobody to ask")
	reported := Facts{GPUs: []GPU{{PCI: "a", UUID: "GPU-1", Name: "H100", Near: cpus(5)}}, Notes: []string{"strange"}}
	silent := "NVIDIA's library does not report the users of these GPUs, so they count as free: a"
	lost := "NVIDIA's library fails for these GPUs, so they do not count as free: b"
	for name, test := range map[string]struct {
		query Query
		facts Facts
		err   error
		notes []string
	}{
		"everything, no answer": {
			Query{All: true}, Facts{}, gone, []string{"nobody to ask: NVLinks, memory and users of the GPUs are unknown"},
		},
		"free ones, no answer": {
			Query{Users: true}, Facts{}, gone, []string{"nobody to ask: the users of the GPUs are unknown, so all " +
				"GPUs count as free"},
		},
		"two queries, no driver": {
			Query{Names: true, Links: true},
			Facts{Error: "no driver"},
			nil,
			[]string{"NVIDIA's library reports nothing (no driver): UUIDs of GPUs and MIG instances are unknown; " +
				"NVLinks are unknown"},
		},
		"free ones, unknown": {
			Query{Users: true},
			reported, nil,
			[]string{
				"strange", "the kernel reports NUMA node 0 for GPU a, NVIDIA's library 1: gorun uses the latter",
				lost, silent,
			},
		},
		"free ones, one failed": {
			Query{Users: true}, Facts{GPUs: []GPU{{PCI: "a", Used: new(false)}, {PCI: "b", Failed: true}}}, nil, []string{lost},
		},
		"free ones, known": {
			Query{Users: true},
			Facts{GPUs: []GPU{{PCI: "a", Used: new(false)}, {PCI: "b", Used: new(true), Failed: true}}},
			nil, nil,
		},
		"free ones, none found": {
			Query{Users: true}, Facts{Notes: []string{"how many?"}}, nil, []string{"how many?", silent + ", b"},
		},
		"links alone": {Query{Links: true}, reported, nil, []string{"strange"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := host(nvidia(0, "a", 0), nvidia(1, "b", 0))
			assert.Equal(t, test.notes, test.query.Complete(&m, test.facts, test.err))
			assert.False(t, m.GPUs[0].Used)
			assert.Equal(t, slices.Contains(test.notes, lost) || name == "free ones, known", m.GPUs[1].Used)
			if name == "links alone" { // links do not affect placement
				assert.Equal(t, "H100", m.GPUs[0].Name)
				assert.Empty(t, m.GPUs[0].UUID)
				assert.Equal(t, 0, m.GPUs[0].Bus.Node)
			}
		})
	}
	m := host()
	assert.Empty(t, Query{All: true}.Complete(&m, Facts{Error: "no driver"}, nil))
	assert.Equal(t, []string{"nobody to ask: NVIDIA GPUs are unknown, since no file here describes them"},
		Query{All: true}.Complete(&m, Facts{}, gone))
}

// Encoding and decoding preserve all facts.
func TestFactsAsJSON(t *testing.T) {
	sent := Facts{Error: "e", CUDA: "12.8", Notes: []string{"n"}, GPUs: []GPU{{
		PCI: "a", UUID: "u", Name: "n", Memory: 1, MIG: []string{"m"}, Used: new(false), MemoryNode: new(0), Near: cpus(1, 2),
		Links: map[string]int{"b": 1}, Switched: 2, Down: 3, Failed: true, Processes: []int{7},
		Health: &Health{
			NoPersistence: true, Mode: "prohibited", Slowed: []string{"s"}, Uncorrected: 1, Pending: true,
			Broken: true,
		}, Peers: []placement.Peer{{PCI: "b", Access: placement.P2POK}},
	}}}
	text, err := json.Marshal(sent)
	require.NoError(t, err)
	var got Facts
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Equal(t, sent, got)
}
