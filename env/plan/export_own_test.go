package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// valueOf is what a rank finds, and whether it finds it.
func valueOf(e Environment, in Inputs, rank int, name string) (string, bool) {
	var lists [][]Variable
	lists = append(lists, e.Common)
	if e.Nodes != nil {
		lists = append(lists, e.Nodes[in.Ranks[rank].Node])
	}
	lists = append(lists, e.Ranks[rank])
	value, found := "", false
	for _, list := range lists {
		for _, v := range list {
			if v.Name == name {
				if found {
					return "twice", true
				}
				value, found = v.Value, true
			}
		}
	}
	return value, found
}

// What one program's ranks get beats what all get, on other hosts as well, and comes once.
func TestExportsOfSomeRanks(t *testing.T) {
	own := []Export{{Name: "A", Value: "own", HasValue: true}, {Name: "OMP_NUM_THREADS", Value: "3", HasValue: true}, {Name: "GONE", Remove: true}, {Name: "HERE"}}
	in := Inputs{
		Inherited: []string{"A=here", "GONE=1", "HERE=h", "LOST=1"}, ExportAll: true, Job: "j", RunID: "r", Role: "default", MasterAddr: "h", MasterPort: "1", JobStore: "h:1",
		Exports: []Export{{Name: "LOST", Remove: true, From: "-genvexcl LOST"}},
		Nodes:   []Node{{Threads: 2}, {Threads: 4, Remote: true, Environ: []string{"HOME=/there"}}},
		Ranks:   []Rank{{Node: 0}, {Node: 0, LocalRank: 1, Exports: own}, {Node: 1, Exports: own}, {Node: 1, LocalRank: 1}},
	}
	e, err := Build(in)
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"A": {"here", "own", "own", "here"}, "OMP_NUM_THREADS": {"2", "3", "3", "4"}, "GONE": {"1", "", "", "1"}, "HERE": {"h", "h", "h", "h"}, "LOST": {"", "", "", ""},
	} {
		for rank := range in.Ranks {
			got, _ := valueOf(e, in, rank, name)
			require.Equal(t, want[rank], got, "%s of rank %d", name, rank)
		}
	}
	in.ExportsOnly = true
	e, err = Build(in)
	require.NoError(t, err)
	for name, want := range map[string]string{"A": "", "GONE": "", "HOME": "", "RANK": "3"} {
		got, _ := valueOf(e, in, 3, name)
		require.Equal(t, want, got, name)
	}
	got, _ := valueOf(e, in, 1, "HERE")
	require.Equal(t, "h", got, "what is named comes all the same")
	in.Ranks[1].Exports = []Export{{Name: "LOCAL_RANK", Value: "9", HasValue: true}}
	_, err = Build(in)
	require.ErrorContains(t, err, "LOCAL_RANK is set by gorun")
}
