package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAwayFromGPUs(t *testing.T) {
	const isolate = ": if your program uses LOCAL_RANK, add `--isolate-gpus --virtual-local-rank`"
	list := func(text string) CPUSet { return set(text) }
	file, err := ParseRankFile("--rankfile f", "rank 0=a slot=1:0\nrank 1=a slot=0:0\n")
	require.NoError(t, err)
	tests := []struct {
		name, machine string
		req           Request
		notes         []string
	}{
		{"gorun's own", "dgx-h100", Request{Ranks: 8}, nil},
		{"gorun's own, ranked", "dgx-h100", Request{Ranks: 8, RankBy: RankBy{Object: ByNUMA}}, nil},
		{"not bound", "dgx-h100", Request{Ranks: 3, MapBy: MapBy{Object: ByNUMA}, BindTo: BindTo{Given: true}}, nil},
		{"by chance near", "dgx-h100", Request{Ranks: 2, MapBy: MapBy{Object: ByNUMA}, GPUsPerRank: 4}, nil},
		{"no GPUs", "two-socket-intel", Request{Ranks: 4, MapBy: MapBy{Object: ByNUMA}}, nil},
		{
			"one rank", "dgx-h100",
			Request{Ranks: 3, MapBy: MapBy{Object: ByNUMA}},
			[]string{"--map-by numa places ranks away from their GPUs: rank 1 is on NUMA node 1, its GPU on 0; " +
				"--map-by gpu places them near their GPUs"},
		},
		{
			"several, with CPUs of their own", "dgx-h100",
			Request{Ranks: 8, MapBy: MapBy{Object: ByNUMA, PE: 2}},
			[]string{"--map-by numa:pe=2 places ranks away from their GPUs: ranks 1,3 are on NUMA node 1, their GPUs " +
				"on 0, ranks 4,6 are on NUMA node 0, their GPUs on 1; --map-by gpu:pe=2 places them near their GPUs"},
		},
		{
			"many nodes", "dgx-a100",
			Request{Ranks: 8, BindTo: BindTo{Given: true, Object: ByNUMA}},
			[]string{"--bind-to numa places ranks away from their GPUs: rank 0 is on NUMA node 0, its GPU on 3, rank " +
				"1 is on NUMA node 1, its GPU on 3, rank 2 is on NUMA node 2, its GPU on 1, and so on for 5 more " +
				"ranks; --map-by gpu places them near their GPUs"},
		},
		{
			"lists", "dgx-h100",
			Request{Ranks: 2, BindTo: BindTo{Given: true, Lists: []CPUSet{list("0"), list("60")}, From: "--bind-to user:0,60"}},
			[]string{"--bind-to user:0,60 places ranks away from their GPUs: rank 1 is on NUMA node 1, its GPU on 0; " +
				"without it they are near"},
		},
		{
			"a rank file", "dgx-h100",
			Request{RankFile: file, Hosts: []string{"a"}},
			[]string{"--rankfile f places ranks away from their GPUs: rank 0 is on NUMA node 1, its GPU on 0; " +
				"without it they are near"},
		},
		{
			"ranks counted otherwise than their GPUs", "dgx-h100",
			Request{Ranks: 4, MapBy: MapBy{Object: ByGPU}, GPUsPerRank: 2, RankBy: RankBy{Object: ByNUMA}},
			[]string{"--rank-by numa gives ranks 1-2 other GPUs than those that LOCAL_RANK selects (rank 1 has GPU " +
				"4-5, not 2-3)" + isolate},
		},
		{
			"the same, isolated", "dgx-h100",
			Request{Ranks: 4, MapBy: MapBy{Object: ByGPU}, GPUsPerRank: 2, RankBy: RankBy{Object: ByNUMA}, Isolate: true},
			nil,
		},
		{"ranks share GPUs in turn", "dgx-h100", Request{Ranks: 16, MapBy: MapBy{Object: ByGPU}}, nil},
		{
			"ranks share GPUs in blocks", "dgx-h100",
			Request{MapBy: MapBy{Object: ByGPU, PPR: 2}},
			[]string{"--map-by ppr:2:gpu gives ranks 1-14 other GPUs than those that LOCAL_RANK selects (rank 1 has " +
				"GPU 0, not 1)" +
				isolate},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Example(tt.machine)
			require.NoError(t, err)
			layout, err := Map(tt.req, []Machine{m})
			require.NoError(t, err)
			assert.Equal(t, tt.notes, layout.Notes)
		})
	}
}

// The option in a note works: with it, the note and its counterpart disappear. gorun's default
// policies never cause these notes.
func TestWayBackToGPUs(t *testing.T) {
	const away = "away from their GPUs"
	notesAway := func(notes []string) bool { return strings.Contains(strings.Join(notes, "\n"), away) }
	for name, m := range sampleMachines(t) {
		for n := 1; n <= 16; n++ {
			own, err := Map(Request{Ranks: n}, []Machine{m})
			require.NoError(t, err, name)
			assert.False(t, notesAway(own.Notes), "%s: %d ranks: %q", name, n, own.Notes)
			for _, object := range []Object{ByPackage, ByNUMA, ByL3, ByCore} {
				req := Request{Ranks: n, MapBy: MapBy{Object: object}}
				if layout, err := Map(req, []Machine{m}); err != nil || !notesAway(layout.Notes) {
					continue
				}
				_, out := req.remedy()
				require.Equal(t, "--map-by gpu places them near their GPUs", out)
				req.MapBy = MapBy{Object: ByGPU}
				layout, err := Map(req, []Machine{m})
				require.NoError(t, err, name)
				nodes := []mapping{{tree: newTree(numbered(0), m)}}
				if !strings.Contains(strings.Join(layout.Notes, "\n"), "too few cores") { // there is a separate note for this
					req.MapBy = MapBy{}
					assert.Empty(t, req.farNote(layout.Ranks, nodes), "%s: %d ranks by %s", name, n, object)
				}
			}
		}
	}
}
