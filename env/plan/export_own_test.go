package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// valueOf returns the value of a rank's variable, and whether it is set.
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

// Exports of one program override exports to all ranks, on other hosts too, and occur once.
func TestExportsOfSomeRanks(t *testing.T) {
	own := []Export{
		{Name: "A", Value: "own", HasValue: true},
		{Name: "OMP_NUM_THREADS", Value: "3", HasValue: true},
		{Name: "GONE", Remove: true},
		{Name: "HERE"},
	}
	in := Inputs{
		Inherited: []string{"A=here", "GONE=1", "HERE=h", "LOST=1"}, ExportAll: true, Job: "j", RunID: "r",
		Role: "default", Store: Store{Addr: "h", Port: "1", Own: "h:1"},
		Exports: []Export{{Name: "LOST", Remove: true, From: "-genvexcl LOST"}},
		Nodes:   []Node{{Threads: 2}, {Threads: 4, Remote: true, Environ: []string{"HOME=/there"}}},
		Ranks:   []Rank{{Node: 0}, {Node: 0, LocalRank: 1, Exports: own}, {Node: 1, Exports: own}, {Node: 1, LocalRank: 1}},
	}
	e, err := Build(in)
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"A": {"here", "own", "own", "here"}, "OMP_NUM_THREADS": {"2", "3", "3", "4"}, "GONE": {"1", "", "", "1"},
		"HERE": {"h", "h", "h", "h"}, "LOST": {"", "", "", ""},
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
	require.ErrorContains(t, err, "gorun sets LOCAL_RANK for each rank")
}

// Ranks get gorun's value of variables that gorun sets for each rank, even if the user exports another value.
func TestExportsOfWhatGorunSets(t *testing.T) {
	own := func(rank, local string) []Export {
		list := []Export{with("RANK", rank), with("LOCAL_RANK", local)}
		list[0].From = "-env RANK " + rank
		return list
	}
	in := job(2, "GROUP_WORLD_SIZE=1", "RANK=0", "WORLD_SIZE=9")
	in.Exports = []Export{with("WORLD_SIZE", "2"), {Name: "GROUP_WORLD_SIZE"}, {Name: "LOCAL_WORLD_SIZE"}}
	in.Ranks[0].Exports, in.Ranks[1].Exports = own("0", "0"), own("1", "1")
	e := build(t, in)
	assert.Empty(t, e.Notes, "they say what is so")
	for rank, want := range []string{"0", "1"} {
		assert.Equal(t, want, value(t, e, rank, "RANK"))
		assert.Equal(t, want, value(t, e, rank, "LOCAL_RANK"))
		assert.Equal(t, "2", value(t, e, rank, "WORLD_SIZE"))
	}
	in.Exports = append(in.Exports, Export{Name: "RANK"}) // both ranks have their own value
	assert.Empty(t, build(t, in).Notes)

	in.Ranks[1].Exports = own("0", "7")
	in.Exports[0].Value = "3"
	_, err := Build(in)
	var lines []string
	for _, export := range []string{
		"-x WORLD_SIZE=3: gorun sets WORLD_SIZE", "-env RANK 0: gorun sets RANK",
		"-x LOCAL_RANK=7: gorun sets LOCAL_RANK",
	} {
		lines = append(lines, export+" for each rank; use an argument or a variable of another name")
	}
	require.EqualError(t, err, strings.Join(lines, "\n"))
	in.LenientExports = true
	e = build(t, in)
	require.Equal(t, []string{
		"ignored -x WORLD_SIZE=3 and -env RANK 0 and -x LOCAL_RANK=7: gorun gives rank 0 WORLD_SIZE=2",
	}, e.Notes)
	require.Equal(t, "2", value(t, e, 0, "WORLD_SIZE"))
	require.Equal(t, "1", value(t, e, 1, "RANK"))
	require.Equal(t, "1", value(t, e, 1, "LOCAL_RANK"))

	in = job(2, "WORLD_SIZE=9")
	in.LenientExports, in.Exports = true, []Export{{Name: "WORLD_SIZE"}}
	require.Equal(t, []string{"ignored -x WORLD_SIZE: gorun gives rank 0 WORLD_SIZE=2"}, build(t, in).Notes)
}
