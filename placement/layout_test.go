package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func gpuMachine(n int) Machine {
	m := cpuMachine(16, 0)
	m.GPUs = gpus(NVIDIA, n)
	return m
}

func TestCount(t *testing.T) {
	hidden := VisibilityOf([]string{"CUDA_VISIBLE_DEVICES="})
	two := VisibilityOf([]string{"CUDA_VISIBLE_DEVICES=0,1"})
	tests := []struct {
		name     string
		req      Request
		machines []Machine
		perNode  []int
		reason   string
		notes    []string
	}{
		{"nothing said", Request{}, []Machine{cpuMachine(4, 0)}, []int{1}, "1 rank: one per node (no GPU found)", nil},
		{"nothing said, GPUs", Request{}, []Machine{gpuMachine(4)}, []int{4}, "4 ranks: one per GPU (4 GPUs)", nil},
		{
			"nothing said, some GPUs hidden",
			Request{Visible: two},
			[]Machine{gpuMachine(8)},
			[]int{2},
			"2 ranks: one per GPU (2 of 8 GPUs, CUDA_VISIBLE_DEVICES=0,1)", nil,
		},
		{
			"nothing said, GPUs hidden",
			Request{Visible: hidden},
			[]Machine{gpuMachine(4)},
			[]int{1},
			`1 rank: one per node (CUDA_VISIBLE_DEVICES="" hides all of 4 GPUs)`, nil,
		},
		{
			"nothing said, a node without GPUs among others",
			Request{},
			[]Machine{gpuMachine(4), cpuMachine(8, 0)},
			[]int{4, 1},
			"5 ranks: one per GPU (4 GPUs on 2 nodes)", nil,
		},
		{
			"slots",
			Request{Slots: []int{4}, SlotsFrom: "-H localhost:4"},
			[]Machine{gpuMachine(8)},
			[]int{4},
			"4 ranks: one per slot (-H localhost:4)", nil,
		},
		{
			"slots of one node only",
			Request{Slots: []int{0, 3}, SlotsFrom: "-H a,b:3"},
			[]Machine{{}, {}},
			[]int{1, 3},
			"4 ranks: one per slot (-H a,b:3)", nil,
		},
		{"-np", Request{Ranks: 4}, []Machine{{}}, []int{4}, "4 ranks: -np 4", nil},
		{"-np fills slots in their order", Request{Ranks: 5}, []Machine{{}, {}}, []int{3, 2}, "5 ranks: -np 5", nil},
		{
			"-np below the slots",
			Request{Ranks: 4, Slots: []int{4, 4}, SlotsFrom: "-H a:4,b:4"},
			[]Machine{{}, {}},
			[]int{4, 0},
			"4 ranks: -np 4",
			[]string{"4 of 8 slots stay idle, all ranks are on node 0: did you mean -np 8?"},
		},
		{
			"-np above the slots",
			Request{Ranks: 7, RanksFrom: "-n 7", Slots: []int{3, 1}, Oversubscribe: true},
			[]Machine{{}, {}},
			[]int{5, 2},
			"7 ranks: -n 7",
			[]string{"7 ranks share 4 slots"},
		},
		{"-np as the slots", Request{Ranks: 4, Slots: []int{4}}, []Machine{{}}, []int{4}, "4 ranks: -np 4", nil},
		{
			"a number per node",
			Request{PerNode: PerNode{Kind: PerNodeFixed, N: 2, From: "-N 2"}},
			[]Machine{{}, {}},
			[]int{2, 2},
			"4 ranks: -N 2 on 2 nodes", nil,
		},
		{
			"-np within a number per node",
			Request{Ranks: 3, PerNode: PerNode{Kind: PerNodeFixed, N: 2}},
			[]Machine{{}, {}},
			[]int{2, 1},
			"3 ranks: -np 3", nil,
		},
		{
			"cpu",
			Request{PerNode: PerNode{Kind: PerNodeCPU}},
			[]Machine{cpuMachine(8, 2.5)},
			[]int{2},
			"2 ranks: one per usable CPU (2.5 of 8 CPUs by cgroup quota)", nil,
		},
		{
			"cpu of two nodes",
			Request{PerNode: PerNode{Kind: PerNodeCPU}},
			[]Machine{cpuMachine(2, 0), cpuMachine(4, 0)},
			[]int{2, 4},
			"6 ranks: one per usable CPU (2 nodes)", nil,
		},
		{
			"gpu",
			Request{PerNode: PerNode{Kind: PerNodeGPU}},
			[]Machine{gpuMachine(1)},
			[]int{1},
			"1 rank: one per GPU (1 GPU)", nil,
		},
		{
			"auto with GPUs",
			Request{PerNode: PerNode{Kind: PerNodeAuto}},
			[]Machine{gpuMachine(2)},
			[]int{2},
			"2 ranks: one per GPU (2 GPUs)", nil,
		},
		{
			"auto without GPUs",
			Request{PerNode: PerNode{Kind: PerNodeAuto}},
			[]Machine{cpuMachine(4, 0)},
			[]int{4},
			"4 ranks: one per usable CPU (4 CPUs; no GPU found)", nil,
		},
		{
			"auto with GPUs hidden",
			Request{PerNode: PerNode{Kind: PerNodeAuto}, Visible: hidden},
			[]Machine{gpuMachine(2)},
			[]int{16},
			`16 ranks: one per usable CPU (16 CPUs; CUDA_VISIBLE_DEVICES="" hides all of 2 GPUs)`, nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			counts, err := Count(test.req, test.machines)
			require.NoError(t, err)
			assert.Equal(t, test.perNode, counts.PerNode)
			assert.Equal(t, test.reason, counts.Reason)
			assert.Equal(t, test.notes, counts.Notes)
		})
	}
}

func TestCountErrors(t *testing.T) {
	driverless := Machine{Notes: []string{"NVIDIA GPUs on the PCI bus: 4, all without the vendor's compute driver: " +
		"check that it is loaded"}}
	gpu := PerNode{Kind: PerNodeGPU, From: "PET_NPROC_PER_NODE=gpu"}
	tests := []struct {
		name     string
		req      Request
		machines []Machine
		want     string
	}{
		{"no node", Request{}, nil, "the job has no nodes"},
		{
			"numbers",
			Request{Ranks: -1, PerNode: PerNode{Kind: PerNodeFixed}},
			[]Machine{{}},
			"-np -1: request at least one rank\n--nproc-per-node 0: request at least one rank per node",
		},
		{
			"gpu without, on several nodes",
			Request{PerNode: gpu, Hosts: []string{"a", "b"}},
			[]Machine{{}, {}},
			"PET_NPROC_PER_NODE=gpu: no usable GPU on a (none found); give a number, cpu or auto",
		},
		{
			"gpu without",
			Request{PerNode: gpu},
			[]Machine{{}},
			"PET_NPROC_PER_NODE=gpu: no usable GPU here (none found); give a number, cpu or auto",
		},
		{
			"gpu, hidden",
			Request{PerNode: gpu, Visible: VisibilityOf([]string{"CUDA_VISIBLE_DEVICES=-1"})},
			[]Machine{gpuMachine(8)},
			"PET_NPROC_PER_NODE=gpu: no usable GPU here (CUDA_VISIBLE_DEVICES=-1 hides all of 8 GPUs); give a " +
				"number, cpu or auto",
		},
		{
			"gpu, no driver",
			Request{PerNode: gpu},
			[]Machine{driverless},
			"PET_NPROC_PER_NODE=gpu: no usable GPU here (NVIDIA GPUs on the PCI bus: 4, all without the vendor's " +
				"compute driver: check that it is loaded); give a number, cpu or auto",
		},
		{
			"cpu, not known",
			Request{PerNode: PerNode{Kind: PerNodeCPU}},
			[]Machine{{}},
			"--nproc-per-node cpu: the usable CPUs of node 0 are unknown; give a number",
		},
		{
			"contradiction",
			Request{Ranks: 3, PerNode: PerNode{Kind: PerNodeFixed, N: 2}},
			[]Machine{{}},
			"-np 3 is more than --nproc-per-node 2 allows: 2 ranks on 1 node",
		},
		{
			"contradiction with gpu",
			Request{Ranks: 3, PerNode: PerNode{Kind: PerNodeGPU}},
			[]Machine{gpuMachine(1)},
			"-np 3 is more than --nproc-per-node gpu allows: 1 rank on 1 node",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Map(test.req, test.machines)
			assert.EqualError(t, err, test.want)
		})
	}
}

func TestNeeds(t *testing.T) {
	tests := []struct {
		name       string
		req        Request
		gpus, cpus bool
	}{
		{"nothing said", Request{}, true, false},
		{"-np", Request{Ranks: 2}, false, false},
		{"slots", Request{Slots: []int{0, 2}}, false, false},
		{"fixed", Request{PerNode: PerNode{Kind: PerNodeFixed, N: 2}}, false, false},
		{"gpu", Request{PerNode: PerNode{Kind: PerNodeGPU}}, true, false},
		{"cpu", Request{PerNode: PerNode{Kind: PerNodeCPU}}, false, true},
		{"auto", Request{PerNode: PerNode{Kind: PerNodeAuto}}, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.gpus, test.req.NeedsGPUs())
			assert.Equal(t, test.cpus, test.req.NeedsCPUs())
		})
	}
}

func TestNeedsTopology(t *testing.T) {
	none := BindTo{Given: true}
	assert.False(t, Request{Ranks: 1}.NeedsTopology())
	assert.False(t, Request{PerNode: PerNode{Kind: PerNodeFixed, N: 1}}.NeedsTopology())
	assert.False(t, Request{Ranks: 4, BindTo: none}.NeedsTopology())
	assert.True(t, Request{Ranks: 4}.NeedsTopology())
	assert.True(t, Request{}.NeedsTopology())
	assert.True(t, Request{Ranks: 1, NUMABinding: NUMANodeBinding}.NeedsTopology())
	assert.True(t, Request{Ranks: 1, BindTo: none, MapBy: MapBy{Object: ByCore}}.NeedsTopology())

	layout, err := Map(Request{Ranks: 4, BindTo: none}, []Machine{cpuMachine(4, 0)})
	require.NoError(t, err)
	assert.Equal(t, Rank{LocalRank: 3, Threads: 1}, layout.Ranks[3])
}

func TestMap(t *testing.T) {
	layout, err := Map(Request{PerNode: PerNode{Kind: PerNodeFixed, N: 3}}, []Machine{gpuMachine(2), {}})
	require.NoError(t, err)
	assert.Equal(t, []int{3, 3}, layout.PerNode)
	assert.Equal(t, "6 ranks: --nproc-per-node 3 on 2 nodes", layout.Reason)
	require.Len(t, layout.Ranks, 6)
	for rank, r := range layout.Ranks {
		assert.Equal(t, rank/3, r.Node)
		assert.Equal(t, rank%3, r.LocalRank)
		if rank < 2 {
			require.NotNil(t, r.GPU)
			assert.Equal(t, rank, r.GPU.Index)
		} else {
			assert.Nil(t, r.GPU, "rank %d", rank)
		}
	}
}

// A program that selects cuda:LOCAL_RANK uses the GPU at that index of the variable.
func TestMapFollowsTheVisibleOrder(t *testing.T) {
	layout, err := Map(Request{Visible: VisibilityOf([]string{"CUDA_VISIBLE_DEVICES=3,1"})}, []Machine{gpuMachine(4)})
	require.NoError(t, err)
	require.Len(t, layout.Ranks, 2)
	assert.Equal(t, 3, layout.Ranks[0].GPU.Index)
	assert.Equal(t, 1, layout.Ranks[1].GPU.Index)
}

func BenchmarkMap(b *testing.B) {
	machines := []Machine{gpuMachine(8)}
	for b.Loop() {
		if _, err := Map(Request{Ranks: 256}, machines); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMapOnTopology(b *testing.B) {
	machines := []Machine{sampleMachines(b)["DGX H100"]}
	for b.Loop() {
		if _, err := Map(Request{}, machines); err != nil {
			b.Fatal(err)
		}
	}
}
