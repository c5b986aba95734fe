package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// twoNodes has two NUMA nodes of two cores; the second has no memory.
func twoNodes() placement.Machine {
	topology := &placement.Topology{Memories: placement.CPUSetOf([]uint64{0b1})}
	for cpu := range 4 {
		topology.CPUs = append(topology.CPUs, placement.CPU{ID: cpu, Core: cpu, L2: cpu, L3: cpu / 2, Node: cpu / 2})
	}
	topology.Nodes = []placement.NUMANode{
		{ID: 0, CPUs: placement.CPUSetOf([]uint64{0b11}), Memory: 1 << 30, Distances: []int{10, 20}},
		{ID: 1, CPUs: placement.CPUSetOf([]uint64{0b1100}), Distances: []int{20, 10}},
	}
	return placement.Machine{CPUs: placement.CPUSetOf([]uint64{0b1111}), Topology: topology}
}

// A plan warns if --bind-mem has no effect.
func TestMemoryPolicyWithoutEffectIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		ranks  int
		memory MemorySpec
		want   []string
	}{
		"a rank without memory of its own": {
			2, MemoryBind, []string{"--bind-mem bind has no effect on 1 rank, rank 1 first: the NUMA nodes of the CPUs have " +
				"no memory that may be used"},
		},
		"a rank that is not bound": {
			1, MemoryBind, []string{"--bind-mem bind has no effect on 1 rank, rank 0 first: not bound to CPUs"},
		},
		"interleaved, not bound": {1, MemoryInterleave, nil},
		"the default":            {2, MemoryPreferred, nil},
		"none":                   {2, MemoryNone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &Spec{Apps: []App{{Program: "./a", NumRanks: c.ranks}}, Place: PlacementSpec{Memory: c.memory}}
			facts := []Facts{{Facts: NodeFacts{Machine: twoNodes(), Programs: []Program{{Path: "/a", Argv: []string{"./a"}}}}}}
			plan, err := NewPlan(spec, facts, IDs{}, Opened{})
			require.NoError(t, err)
			require.Equal(t, c.want, plan.Warnings)
		})
	}
}

// The memory of an unbound rank is interleaved on all nodes that it may use.
func TestInterleavedMemoryOfUnboundRanks(t *testing.T) {
	machine := twoNodes()
	machine.Topology.Memories, machine.Topology.Nodes[1].Memory = placement.CPUSet{}, 1<<30
	for n, want := range map[int]string{1: "0-1", 2: "0", 6: "0-1"} {
		spec := &Spec{Apps: []App{{Program: "./a", NumRanks: n}}, Place: PlacementSpec{Memory: MemoryInterleave}}
		facts := []Facts{{Facts: NodeFacts{Machine: machine, Programs: []Program{{Path: "/a", Argv: []string{"./a"}}}}}}
		plan, err := NewPlan(spec, facts, IDs{}, Opened{})
		require.NoError(t, err)
		require.Equal(t, want, plan.Ranks[0].Memories.String(), "%d ranks", n)
		require.Equal(t, "interleave", plan.Ranks[0].MemoryPolicy.String())
	}
	require.True(t, MemoryInterleave.NeedsTopology())
	require.False(t, MemoryPreferred.NeedsTopology(), "the usual start reads no topology for one rank")
}

// A plan has a note on ranks that are far from their GPUs, for --dry-run, --report-bindings and a launch.
func TestRanksAwayFromTheirGPUsAreNoted(t *testing.T) {
	machine, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	mapBy, err := placement.ParseMapBy("numa")
	require.NoError(t, err)
	spec := &Spec{Apps: []App{{Program: "./a", NumRanks: 3}}}
	spec.Place.MapBy = mapBy
	facts := []Facts{{Facts: NodeFacts{Machine: machine, Programs: []Program{{Path: "/a", Argv: []string{"./a"}}}}}}
	plan, err := NewPlan(spec, facts, IDs{}, Opened{})
	require.NoError(t, err)
	require.Equal(t,
		[]string{"--map-by numa places ranks away from their GPUs: rank 1 is on NUMA node 1, its GPU on 0; --map-by " +
			"gpu places them near their GPUs"}, plan.Notes)
}
