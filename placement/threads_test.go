package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThreadsAsMpirun compares with mpirun 4.1.4 --use-hwthread-cpus --display-map on this machine.
// Core n has the CPUs 2n and 2n+1.
func TestThreadsAsMpirun(t *testing.T) {
	machine := synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2")
	for _, c := range []struct {
		mapBy string
		want  []string
	}{
		{"slot:pe=2", []string{"0-1", "2-3", "4-5", "6-7"}},
		{"slot:pe=3", []string{"0-2", "3-5", "6-8", "9-11"}},
		{"socket:pe=3", []string{"0-2", "8-10", "3-5", "11-13"}},
		{"core", []string{"0-1", "2-3", "4-5", "6-7"}},
	} {
		m, err := ParseMapBy(c.mapBy)
		require.NoError(t, err)
		m.Threads = true
		layout, err := Map(Request{Ranks: 4, MapBy: m}, []Machine{machine})
		require.NoError(t, err)
		var got []string
		for _, r := range layout.Ranks {
			got = append(got, r.CPUs.String())
		}
		require.Equal(t, c.want, got, c.mapBy)
	}
}

// TestCountedRoom: as in Hydra, ranks may share CPUs if gorun counted the CPUs itself. They may not
// exceed a number that the user set.
func TestCountedRoom(t *testing.T) {
	machines := []Machine{synthetic(t, "pack:1 numa:1 l3:1 core:2 pu:2"), synthetic(t, "pack:1 numa:1 l3:1 core:2 pu:2")}
	request := PerNode{Kind: PerNodeCore, From: "I_MPI_PERHOST=allcores"}
	for ranks, want := range map[int][]int{3: {2, 1}, 4: {2, 2}, 7: {4, 3}} {
		counts, err := Count(Request{Ranks: ranks, PerNode: request, Oversubscribe: true}, machines)
		require.NoError(t, err)
		require.Equal(t, want, counts.PerNode)
	}
	_, err := Count(Request{Ranks: 7, RanksFrom: "-n 7", PerNode: request}, machines)
	require.EqualError(t, err, "-n 7 is more than I_MPI_PERHOST=allcores allows: 4 ranks on 2 nodes")
}
