package job

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/placement"
)

// planned returns the plan of a spec on identical nodes.
func planned(t *testing.T, spec Spec, nodes int, m placement.Machine) (*Plan, error) {
	t.Helper()
	var facts []Facts
	for i := range nodes {
		f := Facts{Facts: NodeFacts{Host: fmt.Sprint("node", i), Machine: m, TempDir: "/tmp"}}
		for _, app := range spec.Apps {
			f.Programs = append(f.Programs,
				Program{Path: "/bin/" + app.Program, Argv: append([]string{app.Program}, app.Args...), ScriptArg: 1})
		}
		facts = append(facts, f)
	}
	ids := testIDs
	return NewPlan(&spec, facts, ids, Opened{Addr: "127.0.0.1", Port: 1, Store: "127.0.0.1:1"})
}

func plannedOn(t *testing.T, spec Spec, nodes int, example string) *Plan {
	t.Helper()
	m, err := placement.Example(example)
	require.NoError(t, err)
	p, err := planned(t, spec, nodes, m)
	require.NoError(t, err)
	return p
}

// variable returns a variable of a rank's environment.
func (p *Plan) variable(rank int, name string) plan.Variable {
	for _, v := range slices.Concat(p.Ranks[rank].Env, p.CommonOf(p.Ranks[rank].Node)) {
		if v.Name == name {
			return v
		}
	}
	return plan.Variable{}
}

func mapBy(t *testing.T, text string) placement.MapBy {
	t.Helper()
	m, err := placement.ParseMapBy(text)
	require.NoError(t, err)
	return m
}

// With ranks dealt round-robin to the nodes, anything that belongs to a local rank goes by its number on its node,
// never by its number in the job.
func TestRanksRoundTheNodes(t *testing.T) {
	spec := Spec{
		Apps: []App{
			{Program: "server", NumRanks: 1},
			{
				Program: "client", Args: []string{"--gpu=${local_rank}", "$local_rank$$$rank"}, NumRanks: 6, LocalRankFlag: true,
				SubstituteLocalRank: true,
			},
		},
		Place: PlacementSpec{Request: placement.Request{MapBy: mapBy(t, "node")}},
		Output: OutputSpec{
			LogDir: "/logs", Redirect: StreamMap{Ranks: map[int]Streams{0: Stdout, 2: Stderr, 4: Stdout}},
			Tee: StreamMap{Ranks: map[int]Streams{1: Stdout}},
		},
	}
	p := plannedOn(t, spec, 2, "two-socket-intel")
	assert.Equal(t, []int{0, 2, 4, 6}, p.Nodes[0].Ranks)
	assert.Equal(t, []int{1, 3, 5}, p.Nodes[1].Ranks)
	assert.Equal(t, [][]int{{0, 2, 4, 6}, {1, 3, 5}}, p.Supervision().Nodes)
	for rank, r := range p.Ranks {
		assert.Equal(t, rank, r.Rank)
		assert.Equal(t, []int{rank % 2, rank / 2}, []int{r.Node, r.LocalRank})
		assert.Equal(t, min(rank, 1), r.App)
		if local := fmt.Sprint(rank / 2); rank > 0 {
			assert.Equal(t, []string{"client", "--local-rank=" + local, "--gpu=" + local, local + "$$rank"}, r.Argv)
		}
		assert.Equal(t, fmt.Sprintf("/logs/r_01234567/node%d/attempt_0", rank%2), p.LogsOf(rank%2).Dir)
		assert.Equal(t, fmt.Sprint(rank/2), p.variable(rank, "LOCAL_RANK").Value)
		assert.Equal(t, fmt.Sprint(4-rank%2), p.variable(rank, "LOCAL_WORLD_SIZE").Value)
		assert.Equal(t, fmt.Sprint(rank%2), p.variable(rank, "GROUP_RANK").Value)
		assert.Equal(t, fmt.Sprint(r.CPUs.Len()), p.variable(rank, "OMP_NUM_THREADS").Value)
	}
	assert.Equal(t, []Streams{Stdout, 0, Stderr, 0}, p.Logs.Redirect, "by local rank")
	assert.Equal(t, []Streams{0, Stdout, 0, 0}, p.Logs.Tee)
	assert.Equal(t, []string{"--redirects names local rank 4; there are local ranks 0 to 3"}, p.Warnings)
	assert.NotEqual(t, p.Ranks[0].CPUs, p.Ranks[2].CPUs)
	assert.Equal(t, p.Ranks[0].Memories, p.Ranks[2].Memories, "two ranks of four on each package")
}

func TestResultHasRanksInTheirOrder(t *testing.T) {
	s, _ := NewSupervisor(SupervisorConfig{Nodes: [][]int{{0, 2, 4}, {1, 3}}})
	for rank, end := range s.Result().Ranks {
		assert.Equal(t, rank, end.Rank)
	}
}

func TestRankFileNamesHosts(t *testing.T) {
	file, err := placement.ParseRankFile("places", "rank 1=node0 slot=0-1\nrank 0=node1 slot=1:3\nrank 2=node1 slot=0:0\n")
	require.NoError(t, err)
	rankFile := PlacementSpec{Request: placement.Request{RankFile: file}}
	p := plannedOn(t, Spec{Apps: []App{{Program: "app"}}, Place: rankFile}, 2, "two-socket-intel")
	assert.Equal(t, [][]int{{1}, {0, 2}}, [][]int{p.Nodes[0].Ranks, p.Nodes[1].Ranks})
	assert.Equal(t, "1", p.variable(2, "LOCAL_RANK").Value)
	assert.Equal(t, "1", p.variable(1, "LOCAL_WORLD_SIZE").Value)
}

func TestRanksThatShareMIGInstances(t *testing.T) {
	m := placement.Machine{GPUs: []placement.GPU{{Vendor: placement.NVIDIA, MIG: []string{"MIG-a", "MIG-b"}}}}
	spec := Spec{Apps: []App{{Program: "app"}}, Environ: []string{"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b"}}
	p, err := planned(t, spec, 1, m)
	require.NoError(t, err)
	require.Len(t, p.Ranks, 2)
	assert.Equal(t, []string{"CUDA shows a process only the first MIG instance of CUDA_VISIBLE_DEVICES: with " +
		"--virtual-local-rank each rank has its own, as device 0 (cuda:0)"}, p.Notes)
	spec.VirtualLocalRank = true
	p, err = planned(t, spec, 1, m)
	require.NoError(t, err)
	assert.Empty(t, p.Notes)
	assert.Equal(t, "MIG-b", p.variable(1, "CUDA_VISIBLE_DEVICES").Value)
}

func TestIsolatedGPUs(t *testing.T) {
	m, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	for i := range m.GPUs {
		m.GPUs[i].UUID = fmt.Sprint("GPU-", i)
	}
	isolated := Spec{
		Apps:    []App{{Program: "app", NumRanks: 4}},
		Place:   PlacementSpec{Request: placement.Request{Isolate: true, GPUsPerRank: 2}},
		Environ: []string{"CUDA_VISIBLE_DEVICES=7,6,5,4,3,2,1,0"},
	}
	p, err := planned(t, isolated, 1, m)
	require.NoError(t, err)
	assert.Equal(t, plan.Variable{
		Name: "CUDA_VISIBLE_DEVICES", Value: "GPU-5,GPU-4", Origin: plan.Gorun,
		Reason: "the rank's own GPUs, by UUID (--isolate-gpus)",
	}, p.variable(1, "CUDA_VISIBLE_DEVICES"))
	assert.Equal(t, "5,4", p.Ranks[1].GPU)
	assert.Equal(t, "1", p.variable(1, "LOCAL_RANK").Value)
	assert.Equal(t, []string{"--isolate-gpus: a rank's own GPU is its device 0 (cuda:0), not that of its LOCAL_RANK; " +
		"with --virtual-local-rank LOCAL_RANK is 0, too"}, p.Notes)

	isolated.VirtualLocalRank = true
	p, err = planned(t, isolated, 1, m)
	require.NoError(t, err)
	assert.Equal(t, "0", p.variable(1, "LOCAL_RANK").Value)
	assert.Equal(t, "GPU-5,GPU-4", p.variable(1, "CUDA_VISIBLE_DEVICES").Value)
	assert.Empty(t, p.Notes)

	isolated.Environ = []string{"CUDA_VISIBLE_DEVICES=0,1"}
	_, err = planned(t, isolated, 1, m)
	assert.ErrorContains(t, err, "--gpus-per-rank 2: 4 ranks × 2 are 8 GPUs, node0 has 2")
}

// GPUs without known UUIDs are named by number, with a note on their order.
func TestIsolatedGPUsByNumber(t *testing.T) {
	m, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	for i := range m.GPUs {
		m.GPUs[i].UUID = ""
	}
	isolated := PlacementSpec{Request: placement.Request{Isolate: true}}
	p, err := planned(t, Spec{Apps: []App{{Program: "app"}}, Place: isolated}, 1, m)
	require.NoError(t, err)
	require.Len(t, p.Ranks, 8)
	assert.Equal(t, "7", p.variable(7, "CUDA_VISIBLE_DEVICES").Value)
	assert.Equal(t, "the rank's own GPUs, by number, as no UUID is known (--isolate-gpus)",
		p.variable(7, "CUDA_VISIBLE_DEVICES").Reason)
	assert.Equal(t, "PCI_BUS_ID", p.variable(7, "CUDA_DEVICE_ORDER").Value)
	assert.Contains(t, p.Notes,
		"--isolate-gpus: GPUs are named by their numbers in the order of PCI addresses, since their UUIDs are unknown")
}

// A program counts only the visible GPUs: chosen GPUs have to be its first ones.
func TestChosenGPUs(t *testing.T) {
	m, err := placement.Example("mi300x")
	require.NoError(t, err)
	for i := range m.GPUs {
		m.GPUs[i].UUID = fmt.Sprint("GPU-", i)
	}
	spec := Spec{
		Apps:  []App{{Program: "app", NumRanks: 2}},
		Place: PlacementSpec{Request: placement.Request{GPUs: placement.GPUChoice{Indices: []int{6, 2}}}},
	}
	p, err := planned(t, spec, 1, m)
	require.NoError(t, err)
	for rank, gpu := range []string{"6", "2"} {
		assert.Equal(t, plan.Variable{
			Name: "ROCR_VISIBLE_DEVICES", Value: "GPU-6,GPU-2", Origin: plan.Gorun,
			Reason: "the job's GPUs, by UUID (--gpus 6,2)",
		}, p.variable(rank, "ROCR_VISIBLE_DEVICES"))
		assert.Equal(t, gpu, p.Ranks[rank].GPU)
	}
	spec.VirtualLocalRank = true
	p, err = planned(t, spec, 1, m)
	require.NoError(t, err)
	assert.Equal(t, "GPU-2", p.variable(1, "ROCR_VISIBLE_DEVICES").Value)
	assert.Equal(t, "0", p.variable(1, "LOCAL_RANK").Value)
}

// The job gets the GPUs that no process uses, and a note if their use is unknown.
func TestFreeGPUs(t *testing.T) {
	m, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	for i := range m.GPUs {
		m.GPUs[i].UUID, m.GPUs[i].Used = fmt.Sprint("GPU-", i), i%2 == 0
	}
	spec := Spec{Apps: []App{{Program: "app"}}}
	spec.Place.GPUs.Free = true
	p, err := planned(t, spec, 1, m)
	require.NoError(t, err)
	assert.Len(t, p.Ranks, 4)
	assert.Equal(t, "GPU-1,GPU-3,GPU-5,GPU-7", p.variable(0, "CUDA_VISIBLE_DEVICES").Value)

	facts := []Facts{{Facts: NodeFacts{Host: "a", Notes: []string{"nobody knows"}}}}
	assert.Equal(t, []string{"nobody knows"}, (&builder{facts: facts}).nodeNotes())
	facts = append(facts, Facts{Facts: NodeFacts{Host: "b", Notes: []string{"neither here"}}})
	assert.Equal(t, []string{"a: nobody knows", "b: neither here"}, (&builder{facts: facts}).nodeNotes())
}

// GOMAXPROCS is set only for ranks that share CPUs. Otherwise Go counts the CPUs that it is bound to.
func TestGoThreads(t *testing.T) {
	none, err := placement.ParseBindTo("none")
	require.NoError(t, err)
	for _, test := range []struct {
		ranks        int
		place        placement.Request
		quota        float64
		want         string
		threads, why string // value and reason of OMP_NUM_THREADS
	}{
		{1, placement.Request{}, 0, "", "", ""},
		{1, placement.Request{}, 4, "", "", ""},
		{4, placement.Request{}, 0, "", "", ""},
		{4, placement.Request{}, 8, "2", "2", "8 of 128 CPUs by cgroup quota ÷ 4 ranks"},
		{4, placement.Request{BindTo: none}, 0, "32", "32", "128 CPUs ÷ 4 ranks"},
		{4, placement.Request{MapBy: mapBy(t, "numa")}, 0, "32", "32", "bound to 64 CPUs, with other ranks"},
		{256, placement.Request{}, 0, "2", "1", "128 CPUs ÷ 256 ranks"},
	} {
		m, err := placement.Example("two-socket-intel")
		require.NoError(t, err)
		m.Quota = test.quota
		spec := Spec{Apps: []App{{Program: "app", NumRanks: test.ranks}}, Place: PlacementSpec{Request: test.place}}
		p, err := planned(t, spec, 1, m)
		require.NoError(t, err)
		assert.Equal(t, test.want, p.variable(0, "GOMAXPROCS").Value, "%+v", test)
		if test.want != "" {
			assert.Equal(t, test.threads, p.variable(0, "OMP_NUM_THREADS").Value, "%+v", test)
			assert.Equal(t, test.why, p.variable(0, "OMP_NUM_THREADS").Reason, "%+v", test)
		}
		spec.Environ = []string{"GOMAXPROCS=7"}
		p, err = planned(t, spec, 1, m)
		require.NoError(t, err)
		assert.Equal(t, "7", p.variable(0, "GOMAXPROCS").Value)
	}
}

func TestMasker(t *testing.T) {
	v := func(name, value string) []plan.Variable { return []plan.Variable{{Name: name, Value: value}} }
	p := Plan{
		Common: slices.Concat(v("API_TOKEN", `a"b-secret`), v("PIN_SECRET", "1234"), v("SEED_TOKEN", "123456789"),
			v("A", "public-value")),
		Nodes: []Node{{Env: v("HF_TOKEN", "of-a-node")}},
		Ranks: []Rank{{Env: v("HF_TOKEN", "of-a-rank")}},
	}
	text := `{"a\"b-secret": "a"b-secret, of-a-node, of-a-rank", 1234, 123456789, public-value`
	want := `{"<hidden>": "<hidden>, <hidden>, <hidden>", 1234, 123456789, public-value`
	require.Equal(t, want, p.Masker().Replace(text))
}
