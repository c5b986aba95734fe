package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// isolated returns the variables of each rank of a job with isolated GPUs.
func isolated(t *testing.T, req Request, m Machine, environ ...string) (ranks [][]string, byIndex bool, err error) {
	t.Helper()
	req.Isolate, req.Visible = true, VisibilityOf(environ)
	layout, err := Map(req, []Machine{m})
	for _, r := range layout.Ranks {
		vars, numbers := req.Visible.Only(r.GPUs, m.GPUs)
		byIndex = byIndex || numbers
		var texts []string
		for _, v := range vars {
			texts = append(texts, v.Name+"="+v.Value)
		}
		ranks = append(ranks, texts)
	}
	return ranks, byIndex, err
}

func TestOnly(t *testing.T) {
	nameless := gpus(NVIDIA, 4)
	for i := range nameless {
		nameless[i].UUID = ""
	}
	parts := gpus(AMD, 2)
	parts[1].UUID = parts[0].UUID
	divided := gpus(NVIDIA, 2)
	divided[1].MIG = []string{"MIG-a", "MIG-b"}
	tests := []struct {
		name    string
		gpus    []GPU
		req     Request
		environ []string
		want    [][]string
		byIndex bool
	}{
		{
			"NVIDIA", gpus(NVIDIA, 4),
			Request{Ranks: 2},
			nil,
			[][]string{{"CUDA_VISIBLE_DEVICES=GPU-00000000-5555"}, {"CUDA_VISIBLE_DEVICES=GPU-11000000-5555"}},
			false,
		},
		{
			"several each", gpus(NVIDIA, 4),
			Request{Ranks: 2, GPUsPerRank: 2},
			nil,
			[][]string{
				{"CUDA_VISIBLE_DEVICES=GPU-00000000-5555,GPU-11000000-5555"},
				{"CUDA_VISIBLE_DEVICES=GPU-22000000-5555,GPU-33000000-5555"},
			},
			false,
		},
		{
			"one for each", gpus(NVIDIA, 2),
			Request{},
			nil,
			[][]string{{"CUDA_VISIBLE_DEVICES=GPU-00000000-5555"}, {"CUDA_VISIBLE_DEVICES=GPU-11000000-5555"}},
			false,
		},
		{
			"of a list of numbers", gpus(NVIDIA, 4),
			Request{Ranks: 2},
			[]string{"CUDA_VISIBLE_DEVICES=3,1"},
			[][]string{{"CUDA_VISIBLE_DEVICES=GPU-33000000-5555"}, {"CUDA_VISIBLE_DEVICES=GPU-11000000-5555"}},
			false,
		},
		{
			"chosen", gpus(NVIDIA, 4),
			Request{Ranks: 2, GPUs: GPUChoice{Indices: []int{3, 2}}},
			nil,
			[][]string{{"CUDA_VISIBLE_DEVICES=GPU-33000000-5555"}, {"CUDA_VISIBLE_DEVICES=GPU-22000000-5555"}},
			false,
		},
		{
			"no UUID is known", nameless,
			Request{Ranks: 2, GPUsPerRank: 2},
			nil,
			[][]string{
				{"CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"},
				{"CUDA_VISIBLE_DEVICES=2,3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"},
			},
			true,
		},
		{
			"the user knows UUIDs", nameless,
			Request{Ranks: 2},
			[]string{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"},
			[][]string{{"CUDA_VISIBLE_DEVICES=GPU-a"}, {"CUDA_VISIBLE_DEVICES=GPU-b"}},
			false,
		},
		{
			"the user knows MIG instances", nameless[:1],
			Request{Ranks: 2},
			[]string{"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"},
			[][]string{{"CUDA_VISIBLE_DEVICES=MIG-a"}, {"CUDA_VISIBLE_DEVICES=MIG-b"}},
			false,
		},
		{
			"MIG", divided,
			Request{},
			nil,
			[][]string{
				{"CUDA_VISIBLE_DEVICES=GPU-00000000-5555"},
				{"CUDA_VISIBLE_DEVICES=MIG-a"},
				{"CUDA_VISIBLE_DEVICES=MIG-b"},
			},
			false,
		},
		{
			"AMD", gpus(AMD, 2),
			Request{},
			nil,
			[][]string{{"ROCR_VISIBLE_DEVICES=GPU-00000000-5555"}, {"ROCR_VISIBLE_DEVICES=GPU-11000000-5555"}},
			false,
		},
		{
			"HIP counts what ROCR leaves", gpus(AMD, 4),
			Request{GPUsPerRank: 2},
			[]string{"ROCR_VISIBLE_DEVICES=1,2,3", "HIP_VISIBLE_DEVICES=1,2"},
			[][]string{{"ROCR_VISIBLE_DEVICES=GPU-22000000-5555,GPU-33000000-5555", "HIP_VISIBLE_DEVICES=0,1"}},
			false,
		},
		{
			"HIP's alias", gpus(AMD, 2),
			Request{},
			[]string{"CUDA_VISIBLE_DEVICES=1"},
			[][]string{{"ROCR_VISIBLE_DEVICES=GPU-11000000-5555", "CUDA_VISIBLE_DEVICES=0"}},
			false,
		},
		{
			"parts of one UUID", parts,
			Request{},
			nil,
			[][]string{{"ROCR_VISIBLE_DEVICES=0"}, {"ROCR_VISIBLE_DEVICES=1"}},
			true,
		},
		{"Intel", gpus(Intel, 2), Request{}, nil, [][]string{{"ZE_AFFINITY_MASK=0"}, {"ZE_AFFINITY_MASK=1"}}, true},
		{
			"Intel, tiles", gpus(Intel, 2),
			Request{},
			[]string{"ZE_AFFINITY_MASK=1.0,1.1"},
			[][]string{{"ZE_AFFINITY_MASK=1.0"}, {"ZE_AFFINITY_MASK=1.1"}},
			true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, byIndex, err := isolated(t, test.req, Machine{CPUs: NewCPUSet(0, 1), GPUs: test.gpus}, test.environ...)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.byIndex, byIndex)
		})
	}
}

// The variables of an isolated rank select exactly its GPUs.
func TestOnlyIsSeen(t *testing.T) {
	for _, vendor := range []Vendor{NVIDIA, AMD, Intel} {
		all := gpus(vendor, 8)
		for each := 1; each <= 4; each++ {
			layout, err := Map(Request{Ranks: 2, GPUsPerRank: each, Isolate: true}, []Machine{{GPUs: all}})
			require.NoError(t, err)
			for _, rank := range layout.Ranks {
				vars, _ := Visibility{}.Only(rank.GPUs, all)
				var environ []string
				for _, v := range vars {
					environ = append(environ, v.Name+"="+v.Value)
				}
				seen, _ := Visible(all, VisibilityOf(environ))
				assert.Equal(t, rank.GPUs, seen, fmt.Sprint(vendor, each, rank.LocalRank))
			}
		}
	}
	vars, byIndex := Visibility{}.Only(nil, gpus(NVIDIA, 1))
	assert.Empty(t, vars)
	assert.False(t, byIndex)
}

func TestIsolationThatCannotBe(t *testing.T) {
	divided := gpus(NVIDIA, 1)
	divided[0].MIG = []string{"MIG-a", "MIG-b"}
	two := gpus(NVIDIA, 2)
	for _, test := range []struct {
		gpus    []GPU
		req     Request
		environ string
		want    string
	}{
		{nil, Request{Ranks: 1}, "", "--isolate-gpus: node 0 has no GPU that ranks can see"},
		{
			two,
			Request{Ranks: 1},
			"CUDA_VISIBLE_DEVICES=",
			`--isolate-gpus: node 0 has no GPU that ranks can see (CUDA_VISIBLE_DEVICES="" hides all of 2 GPUs)`,
		},
		{
			two,
			Request{Ranks: 3},
			"",
			"--isolate-gpus: 3 ranks are more than the 2 GPUs of node 0; with --map-by gpu ranks share them",
		},
		{two, Request{Ranks: 2}, "CUDA_VISIBLE_DEVICES=1", "--isolate-gpus: 2 ranks are more than the 1 GPU of " +
			"node 0 (CUDA_VISIBLE_DEVICES=1); with --map-by gpu ranks share them"},
		{divided, Request{Ranks: 1, GPUsPerRank: 2}, "", "--gpus-per-rank 2: CUDA shows a process only one MIG " +
			"instance: use --gpus-per-rank 1"},
	} {
		_, _, err := isolated(t, test.req, Machine{GPUs: test.gpus}, test.environ)
		assert.EqualError(t, err, test.want)
	}
	file, err := ParseRankFile("hosts", "rank 0=+n0 slot=0\nrank 1=+n0 slot=0\nrank 2=+n0 slot=0\n")
	require.NoError(t, err)
	m := withGPUs(synthetic(t, "pack:1 numa:1 core:4 pu:1"), 0)
	_, err = Map(Request{RankFile: file, Isolate: true}, []Machine{m})
	assert.EqualError(t, err,
		"--isolate-gpus: 3 ranks are more than the 1 GPU of node 0; with --map-by gpu ranks share them")
	mapBy, err := ParseMapBy("gpu")
	require.NoError(t, err)
	layout, err := Map(Request{Ranks: 3, MapBy: mapBy, Isolate: true}, []Machine{m})
	require.NoError(t, err)
	assert.Len(t, layout.Ranks[2].GPUs, 1, "they share it")
}
