package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The slots of several nodes are a limit. Those of a single node are not.
func TestSlots(t *testing.T) {
	four := []int{4, 4, 4, 4}
	hosts := []string{"node1", "node2", "node3", "node4"}
	byNode := MapBy{Object: ByNode}
	for name, c := range map[string]struct {
		request Request
		nodes   int
		perNode []int
		notes   []string
		err     string
	}{
		"filled by slot": {
			Request{Ranks: 6, Slots: four},
			4,
			[]int{4, 2, 0, 0},
			[]string{"10 of 16 slots stay idle: did you mean -np 16?"},
			"",
		},
		"filled by node": {
			Request{Ranks: 6, Slots: four, MapBy: byNode},
			4,
			[]int{2, 2, 1, 1},
			[]string{"10 of 16 slots stay idle: did you mean -np 16?"},
			"",
		},
		"by node, uneven": {Request{Ranks: 8, Slots: []int{1, 2, 5}, MapBy: byNode}, 3, []int{1, 2, 5}, nil, ""},
		"the option's own name": {
			Request{Ranks: 1, RanksFrom: "--np=1", Slots: []int{2, 1}},
			2,
			[]int{1, 0},
			[]string{"2 of 3 slots stay idle: did you mean --np=3?"},
			"",
		},
		"several programs": {
			Request{Ranks: 3, RanksFrom: "-n 1, -n 2", Slots: []int{2, 2}},
			2,
			[]int{2, 1},
			[]string{"1 of 4 slots stays idle: did you mean -np 4?"},
			"",
		},
		"no number, one per slot": {Request{Slots: []int{1, 3}}, 2, []int{1, 3}, nil, ""},
		"no slots, divided":       {Request{Ranks: 16}, 2, []int{8, 8}, nil, ""},
		"a number on each": {
			Request{PerNode: PerNode{Kind: PerNodeFixed, N: 2}, Slots: four}, 4, []int{2, 2, 2, 2}, nil, "",
		},
		"more than slots": {
			Request{Ranks: 20, RanksFrom: "-n 20", Slots: four, SlotsFrom: "-H node[1-4]:4"},
			4, nil, nil,
			"-n 20 is more than the 16 slots of 4 nodes (-H node[1-4]:4): use -n 16 or --oversubscribe",
		},
		"oversubscribed": {
			Request{Ranks: 6, Slots: []int{1, 3}, Oversubscribe: true}, 2, []int{2, 4}, []string{"6 ranks share 4 slots"}, "",
		},
		"oversubscribed by map-by": {
			Request{Ranks: 6, Slots: []int{1, 3}, MapBy: MapBy{Object: BySlot, Oversubscribe: true}},
			2,
			[]int{2, 4},
			[]string{"6 ranks share 4 slots"},
			"",
		},
		"more on each": {
			Request{
				PerNode: PerNode{Kind: PerNodeFixed, N: 3}, Slots: []int{4, 2}, Hosts: hosts[:2],
				SlotsFrom: "-H node1:4,node2:2",
			},
			2, nil, nil, "--nproc-per-node 3 on 2 nodes: 3 ranks are more than the 2 slots of node2 (-H " +
				"node1:4,node2:2): --oversubscribe allows that",
		},
		"one node takes more": {Request{Ranks: 8, Slots: []int{4}}, 1, []int{8}, []string{"8 ranks share 4 slots"}, ""},
		"max-slots, room elsewhere": {
			Request{Ranks: 8, Slots: []int{2, 2}, MaxSlots: []int{3, 0}, Oversubscribe: true},
			2,
			[]int{3, 5},
			[]string{"8 ranks share 4 slots"},
			"",
		},
		"max-slots hold always": {
			Request{Ranks: 8, Slots: []int{2, 2}, MaxSlots: []int{3, 3}, Oversubscribe: true, SlotsFrom: "--hostfile h"},
			2, nil, nil, "-np 8 is more than the 6 ranks that max-slots allows on 2 nodes (--hostfile h): use -np 6",
		},
		"max-slots of one node": {
			Request{Ranks: 5, Slots: []int{2}, MaxSlots: []int{4}},
			1, nil, nil,
			"-np 5 is more than the 4 ranks that max-slots allows on 1 node: use -np 4",
		},
		"fewer than were allotted": {Request{Ranks: 3, Slots: []int{2, 3}, SlotsAllotted: true}, 2, []int{2, 1}, nil, ""},
		"max-slots, number given": {
			Request{PerNode: PerNode{Kind: PerNodeFixed, N: 5}, MaxSlots: []int{4}},
			1, nil, nil,
			"--nproc-per-node 5: 5 ranks are more than max-slots=4 of node 0 allows",
		},
	} {
		t.Run(name, func(t *testing.T) {
			counts, err := Count(c.request, make([]Machine, c.nodes))
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.perNode, counts.PerNode)
			assert.Equal(t, c.notes, counts.Notes)
		})
	}
}

// A request for more ranks than slots fails. The error starts with the request, whatever option set
// the number.
func TestSlotsOfCountedRanks(t *testing.T) {
	r := Request{PerNode: PerNode{Kind: PerNodeCPU, From: "--nproc-per-node cpu"}, Slots: []int{2, 1}}
	err := r.checkSlots(Counts{PerNode: []int{2, 2}, Reason: "one per usable CPU (2 nodes)"})
	require.EqualError(t, err,
		"--nproc-per-node cpu on 2 nodes: 2 ranks are more than the 1 slot of node 1: --oversubscribe allows that")
}
