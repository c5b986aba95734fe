package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseMapBy(t *testing.T) {
	tests := map[string]MapBy{
		"slot":                          {Object: BySlot},
		"NODE":                          {Object: ByNode},
		"socket":                        {Object: ByPackage},
		"package":                       {Object: ByPackage},
		"pack":                          {Object: ByPackage},
		"l3cache:pe=4":                  {Object: ByL3, PE: 4},
		"l1cache":                       {Object: ByCore},
		"hw":                            {Object: ByThread},
		"numa:PE=2,span":                {Object: ByNUMA, PE: 2, Span: true},
		"numa:pe=2:span":                {Object: ByNUMA, PE: 2, Span: true},
		"core:oversubscribe":            {Object: ByCore, Oversubscribe: true},
		"core:NOOVERSUBSCRIBE":          {Object: ByCore, NoOversubscribe: true},
		":OVERSUBSCRIBE":                {Oversubscribe: true},
		":pe=2":                         {Object: ByNUMA, PE: 2},
		":pe=1":                         {PE: 1},
		"gpu":                           {Object: ByGPU},
		"nic:span":                      {Object: ByNIC, Span: true},
		"dist":                          {Object: ByDistance},
		"dist:mlx5_0":                   {Object: ByDistance, Device: "mlx5_0"},
		"dist:span:eth0":                {Object: ByDistance, Span: true, Device: "eth0"},
		"ppr:2:socket":                  {Object: ByPackage, PPR: 2},
		"ppr:1:gpu":                     {Object: ByGPU, PPR: 1},
		"PPR:4:node:pe=2,oversubscribe": {Object: ByNode, PPR: 4, PE: 2, Oversubscribe: true},
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			got, err := ParseMapBy(value)
			require.NoError(t, err)
			want.From = "--map-by " + value
			assert.Equal(t, want, got)
			got.From = ""
			again, err := ParseMapBy(strings.TrimPrefix(got.String(), "--map-by "))
			require.NoError(t, err)
			again.From = ""
			assert.Equal(t, got, again, "%s", got)
		})
	}
}

func TestParseBindTo(t *testing.T) {
	tests := map[string]BindTo{
		"none":                               {Given: true},
		"board":                              {Given: true, Object: ByBoard},
		"core":                               {Given: true, Object: ByCore},
		"Socket:overload-allowed":            {Given: true, Object: ByPackage, OverloadAllowed: true},
		"core:if-supported,OverLoad-Allowed": {Given: true, Object: ByCore, IfSupported: true, OverloadAllowed: true},
		":overload-allowed":                  {OverloadAllowed: true},
		"numa:2":                             {Given: true, Object: ByNUMA, Count: 2},
		"user:0+2,1-3":                       {Given: true, Lists: []CPUSet{NewCPUSet(0, 2), NewCPUSet(1, 2, 3)}},
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			got, err := ParseBindTo(value)
			require.NoError(t, err)
			want.From = "--bind-to " + value
			assert.Equal(t, want, got)
		})
	}
}

func TestParseRankBy(t *testing.T) {
	tests := map[string]RankBy{
		"slot":     {Object: BySlot},
		"core":     {Object: ByCore},
		"numa:sp":  {},
		"span":     {Order: RankSpan},
		"fill":     {Order: RankFill},
		"skt:fill": {Object: ByPackage, Order: RankFill},
		"gpu:span": {Object: ByGPU, Order: RankSpan},
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			got, err := ParseRankBy(value)
			if want == (RankBy{}) {
				assert.EqualError(t, err, `--rank-by numa:sp: unknown modifier "sp"; known: span, fill`)
				return
			}
			require.NoError(t, err)
			want.From = "--rank-by " + value
			assert.Equal(t, want, got)
		})
	}
}

func TestParseGPUs(t *testing.T) {
	choice, err := ParseGPUs("2,4-6,0")
	require.NoError(t, err)
	assert.Equal(t, []int{2, 4, 5, 6, 0}, choice.Indices)
	free, err := ParseGPUs("FREE")
	require.NoError(t, err)
	assert.True(t, free.Free)
}

func TestRequestErrors(t *testing.T) {
	parts := "package, socket, skt, numa, l3cache, l2cache, core, l1cache, hwthread, thread"
	tests := []struct {
		parse func(string) error
		value string
		want  string
	}{
		{mapBy, "", "--map-by: the value is missing; use slot, node, gpu, nic, dist, " + parts + " or ppr:N:OBJECT"},
		{
			mapBy, "sokcet",
			`--map-by sokcet: unknown object "sokcet" (did you mean socket?); known: slot, node, gpu, nic, dist, ` + parts,
		},
		{mapBy, "n", `--map-by n: unknown object "n"; known: slot, node, gpu, nic, dist, ` + parts},
		{mapBy, "ppr:2", "--map-by ppr:2: write ppr:N:OBJECT, such as ppr:2:package"},
		{mapBy, "ppr:two:node", `--map-by ppr:two:node: ranks per object: "two" is not a number from 1 to 1048576`},
		{mapBy, "ppr:2:slot", `--map-by ppr:2:slot: unknown object "slot"; known: node, gpu, nic, ` + parts},
		{mapBy, "numa:pe=0", `--map-by numa:pe=0: pe: "0" is not a number from 1 to 1048576`},
		{
			mapBy, "numa:spam",
			`--map-by numa:spam: unknown modifier "spam" (did you mean span?); known: span, ` +
				`oversubscribe, nooversubscribe, pe=N`,
		},
		{
			mapBy, "core:pe=2",
			"--map-by core:pe=2: pe=2 exceeds the 1 CPU of a core; map by a larger object, or use slot:pe=2",
		},
		{
			mapBy, "core:oversubscribe,nooversubscribe",
			"--map-by core:oversubscribe,nooversubscribe: oversubscribe and nooversubscribe contradict each other",
		},
		{bindTo, "", `--bind-to : unknown object ""; known: none, board, machine, ` + parts},
		{bindTo, "gpu", `--bind-to gpu: unknown object "gpu"; known: none, board, machine, ` + parts},
		{
			bindTo, "core:overload",
			`--bind-to core:overload: unknown modifier "overload"; known: overload-allowed, if-supported, N`,
		},
		{bindTo, "user:0+x", `--bind-to user:0+x: CPU list "0,x": "x" is not a CPU number below 65536`},
		{bindTo, "user:", "--bind-to user:: the list of a rank is empty"},
		{rankBy, "", `--rank-by : unknown object ""; known: slot, node, gpu, nic, ` + parts},
		{
			chosenGPUs, "1,free",
			`--gpus 1,free: "free" is not a number or range of GPUs; use numbers (2,4,7), ranges (0-3) or free`,
		},
		{chosenGPUs, "1,0-2", "--gpus 1,0-2: GPU 1 is named twice"},
		{
			numaBinding, "exclusiv",
			`--numa-binding exclusiv: unknown binding "exclusiv" (did you mean exclusive?); known: node, ` +
				`socket, exclusive, core-complex`,
		},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) { assert.EqualError(t, test.parse(test.value), test.want) })
	}
}

func mapBy(value string) error       { _, err := ParseMapBy(value); return err }
func bindTo(value string) error      { _, err := ParseBindTo(value); return err }
func rankBy(value string) error      { _, err := ParseRankBy(value); return err }
func chosenGPUs(value string) error  { _, err := ParseGPUs(value); return err }
func numaBinding(value string) error { _, err := ParseNUMABinding(value); return err }

// Impossible requests fail, and the errors have the numbers.
func TestImpossibleRequests(t *testing.T) {
	machines := sampleMachines(t)
	hosts := func(r Request) Request { r.Hosts = []string{"a"}; return r }
	request := func(n int, mapBy, bindTo string) Request {
		r := Request{Ranks: n}
		var err error
		r.MapBy, err = ParseMapBy(mapBy)
		require.NoError(t, err)
		if bindTo != "" {
			r.BindTo, err = ParseBindTo(bindTo)
			require.NoError(t, err)
		}
		return r
	}
	tests := []struct {
		machine string
		req     Request
		want    string
	}{
		{
			"two packages", request(2, "package:pe=33", ""),
			"--map-by package:pe=33: pe=33 is more than the 32 cores of package 0 of node 0",
		},
		{
			"two packages", request(5, "ppr:2:package", ""),
			"-np 5 is more than --map-by ppr:2:package allows: 4 ranks on 1 node",
		},
		{
			"two packages", request(65, "core", "core"),
			"--bind-to core: too few CPUs on node 0 for these ranks: core 0 takes 1; use fewer ranks, or --bind-to " +
				"core:overload-allowed, or --bind-to none",
		},
		{
			"two packages", request(3, "slot:pe=30", ""),
			"--map-by slot:pe=30: too few CPUs on node 0 for these ranks of 30 CPUs each: core 63 takes 1; use " +
				"fewer ranks, or --bind-to core:overload-allowed, or --bind-to none",
		},
		{
			"two packages", request(2, "l2cache", ""),
			"--map-by l2cache: node 0 has no L2 caches; it has 2 packages, 2 NUMA nodes, 64 cores, 128 hardware threads",
		},
		{"two packages", request(2, "gpu", ""), "--map-by gpu: node 0 has no GPU that may be used"},
		{"two packages", request(2, "nic", ""), "--map-by nic: node 0 has no NIC that is up, of 0"},
		{
			"two packages", request(2, "dist:mlx5_0", ""),
			`--map-by dist:mlx5_0: node 0 has no device "mlx5_0"; it has no NICs`,
		},
		{
			"two packages", request(2, "numa:pe=2", "numa"),
			"--map-by numa:pe=2: pe=2 binds ranks to cores and contradicts --bind-to numa",
		},
		{
			"laptop", request(9, "core:nooversubscribe", ""),
			"--map-by core:nooversubscribe: 9 ranks are more than the 8 CPUs of node 0",
		},
		{
			"laptop", request(2, "core", "user:0,9"),
			"--bind-to user:0,9: CPUs 9 are outside the allowed CPUs of node 0 (0-7)",
		},
		{"laptop", Request{Ranks: 2, CPUsPerRank: 5}, "--cpus-per-rank 5: 2 ranks × 3 are 6 cores, node 0 has 4 (8 CPUs)"},
		{"laptop", Request{Ranks: 2, CPUsPerRank: -1}, "--cpus-per-rank -1: request at least one CPU"},
		{"laptop", Request{Ranks: 1, GPUsPerRank: 1}, "--gpus-per-rank 1: 1 rank × 1 is 1 GPU, node 0 has 0"},
		{"DGX H100", Request{Ranks: 3, GPUsPerRank: 4}, "--gpus-per-rank 4: 3 ranks × 4 are 12 GPUs, node 0 has 8"},
		{
			"DGX H100",
			Request{GPUsPerRank: 2, MapBy: MapBy{PPR: 1, Object: ByGPU}},
			"--map-by ppr:1:gpu and --gpus-per-rank 2 both set the GPUs of a rank; --map-by gpu --gpus-per-rank 2 " +
				"gives each its own",
		},
		{
			"two packages",
			Request{Ranks: 2, CPUsPerRank: 4, MapBy: MapBy{Object: ByThread}},
			"--cpus-per-rank 4: --map-by hwthread:pe=4: pe=4 is more than the 1 hardware threads of hardware thread 0 of node 0",
		},
		{
			"DGX H100",
			Request{Ranks: 2, GPUs: GPUChoice{Indices: []int{2, 9}}},
			"--gpus 2,9: node 0 has no GPU 9; it has 8 GPUs (0-7)",
		},
		{
			"DGX H100",
			Request{Ranks: 3, GPUs: GPUChoice{Indices: []int{2, 4}}},
			"--gpus 2,4: 3 ranks are more than the 2 GPUs of node 0 (of 8)",
		},
		{
			"laptop",
			Request{Ranks: 1, GPUs: GPUChoice{Free: true}},
			"--gpus free: node 0 has no GPU: leave --gpus out to place ranks on CPUs",
		},
		{
			"DGX H100",
			Request{Ranks: 1, GPUs: GPUChoice{Free: true}, Visible: VisibilityOf([]string{"CUDA_VISIBLE_DEVICES=-1"})},
			"--gpus free: node 0 has no GPU that may be used (CUDA_VISIBLE_DEVICES=-1 hides all of 8 GPUs): leave --gpus out " +
				"to place ranks on CPUs",
		},
		{
			"laptop",
			Request{Ranks: 2, GPUs: GPUChoice{Indices: []int{2, 4}}},
			"--gpus 2,4: node 0 has no GPU: leave --gpus out to place ranks on CPUs",
		},
		{
			"laptop",
			Request{Ranks: 2, GPUsPerRank: 1, GPUs: GPUChoice{Free: true}},
			"--gpus free: node 0 has no GPU: leave --gpus out to place ranks on CPUs",
		},
		{
			"two packages", request(0, "ppr:1048576:package", ""),
			"--map-by ppr:1048576:package: 2097152 ranks exceed the limit of 1048576 per job",
		},
		{
			"DGX H100",
			Request{Ranks: 65, NUMABinding: NUMAExclusive, MapBy: MapBy{Object: ByCore}},
			"--numa-binding exclusive contradicts --map-by, --bind-to and --cpus-per-rank: use one or the others",
		},
		{
			"all GPUs at one",
			Request{Ranks: 9, NUMABinding: NUMAExclusive, GPUsPerRank: 0},
			"--numa-binding exclusive: 5 ranks on the 4 cores of NUMA node 0 of node 0",
		},
		{
			"laptop", hosts(Request{RankFile: &RankFile{From: "f", Lines: []RankLine{{Host: "b", Line: 3}}}}),
			`f line 3, rank 0: host "b" is not in the job: a; +n0 is the first`,
		},
		{
			"laptop", hosts(Request{RankFile: &RankFile{From: "f", Lines: []RankLine{{Host: "a", Slots: "1-4", Line: 3}}}}),
			`f line 3, rank 0: slot=1-4: core "1-4" is not one of the 4 cores (0-3) of node`,
		},
		{
			"laptop", hosts(Request{RankFile: &RankFile{From: "f", Lines: []RankLine{{Host: "+n0", Slots: "1:0", Line: 3}}}}),
			`f line 3, rank 0: slot=1:0: package "1" is not one of the 1 of a (0-0)`,
		},
		{
			"laptop",
			Request{Ranks: 2, RankFile: &RankFile{From: "f", Lines: []RankLine{{Host: "a"}}}},
			"-np 2: f has places for 1 rank",
		},
		{"", request(2, "core", ""), "--map-by core: the topology of node 0 is unknown"},
		{"", Request{Ranks: 1, NUMABinding: NUMANodeBinding}, "--numa-binding node: the topology of node 0 is unknown"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			_, err := Map(test.req, []Machine{machines[test.machine]})
			assert.EqualError(t, err, test.want)
		})
	}
}

// withNICs adds an RDMA device at each of the given NUMA nodes.
func withNICs(m Machine, nodes ...int) Machine {
	topology := *m.Topology
	topology.NICs = []NIC{
		{Name: "eno1", Kind: Ethernet, Interface: "eno1", Up: true, Bus: &Bus{Node: 0}},
		{Name: "docker0", Kind: Virtual, Up: true},
	}
	for i, node := range nodes {
		topology.NICs = append(topology.NICs, NIC{
			Name: fmt.Sprintf("mlx5_%d", i), Kind: InfiniBand, Up: i != 2,
			Bus: &Bus{Node: node},
		})
	}
	m.Topology = &topology
	return m
}

// These mappings do not exist in mpirun.
func TestMapToDevicesAndShares(t *testing.T) {
	small := withNICs(withGPUs(synthetic(t, "pack:2 numa:2 l3:1 core:4 pu:1"), 3, 3, 0, 0), 2, 1, 0)
	tests := []struct {
		mapBy, bindTo string
		ranks         int
		cpus          []string
		gpu           int // of the last rank
	}{
		{"gpu", "", 4, []string{"12-13", "14-15", "0-1", "2-3"}, 3},
		{"gpu", "", 6, []string{"12-13", "14-15", "0-1", "2-3", "8-9", "10-11"}, 1},
		{"ppr:2:gpu", "", 0, []string{"12-13", "14-15", "8-9", "10-11", "0-1", "2-3", "4-5", "6-7"}, 3},
		{"gpu", "core", 4, []string{"12", "13", "0", "1"}, 3},
		{"gpu", "numa", 2, []string{"12-15", "12-15"}, 1},
		{"gpu", "none", 3, []string{"", "", ""}, 2},
		{"nic", "", 2, []string{"8-11", "4-7"}, 1},
		{"nic", "", 4, []string{"8-9", "4-5", "10-11", "6-7"}, 3},
		{"dist:mlx5_0", "core", 6, []string{"8", "9", "10", "11", "12", "13"}, -1},
		{"dist:mlx5_0:pe=2", "", 3, []string{"8-9", "10-11", "12-13"}, 2},
		{"dist:gpu", "numa", 5, []string{"12-15", "12-15", "12-15", "12-15", "8-11"}, -1},
		{"ppr:2:numa", "", 8, []string{"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}, -1},
		{"ppr:3:package", "", 0, []string{"0-1", "2-3", "4-6", "8-9", "10-11", "12-14"}, -1},
		{"package", "", 2, []string{"0-7", "8-15"}, 1},
		{"slot", "", 4, []string{"12-13", "14-15", "0-1", "2-3"}, 3},
		{"core:oversubscribe", "core", 17, []string{"0"}, -1},
		{":span", "", 4, []string{"12-13", "14-15", "0-1", "2-3"}, 3},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.mapBy, " ", test.bindTo, " ", test.ranks), func(t *testing.T) {
			r := Request{Ranks: test.ranks}
			var err error
			r.MapBy, err = ParseMapBy(test.mapBy)
			require.NoError(t, err)
			if test.bindTo != "" {
				r.BindTo, err = ParseBindTo(test.bindTo)
				require.NoError(t, err)
			}
			layout, err := Map(r, []Machine{small})
			require.NoError(t, err)
			var cpus []string
			for _, rank := range layout.Ranks {
				cpus = append(cpus, rank.CPUs.String())
			}
			assert.Equal(t, test.cpus, cpus[:len(test.cpus)])
			last := layout.Ranks[len(layout.Ranks)-1]
			if test.gpu < 0 {
				assert.Nil(t, last.GPU)
			} else if assert.NotNil(t, last.GPU) {
				assert.Equal(t, test.gpu, last.GPU.Index)
			}
		})
	}
}

// --cpus-per-rank counts hardware threads and assigns whole cores with every mapping.
func TestCPUsPerRankWithMapping(t *testing.T) {
	m := synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2")
	for object, want := range map[Object]string{ByPackage: "0-3 8-11 4-7 12-15", BySlot: "0-3 4-7 8-11 12-15"} {
		layout, err := Map(Request{Ranks: 4, CPUsPerRank: 3, MapBy: MapBy{Object: object}}, []Machine{m})
		require.NoError(t, err)
		var got []string
		for _, rank := range layout.Ranks {
			got = append(got, rank.CPUs.String())
			assert.Equal(t, 4, rank.Threads)
		}
		assert.Equal(t, want, strings.Join(got, " "))
	}
}

// --bind-to core does not change --cpus-per-rank, because ranks have whole cores anyway.
func TestCPUsPerRankBoundToCores(t *testing.T) {
	m := withGPUs(synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2"), 1, 0)
	want, err := Map(Request{Ranks: 2, CPUsPerRank: 4}, []Machine{m})
	require.NoError(t, err)
	got, err := Map(Request{Ranks: 2, CPUsPerRank: 4, BindTo: BindTo{Given: true, Object: ByCore}}, []Machine{m})
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// With mapping by GPU, each rank gets --gpus-per-rank GPUs and cores near all of them.
func TestMapByGPUWithSeveralEach(t *testing.T) {
	m := withGPUs(synthetic(t, "pack:2 numa:2 l3:1 core:4 pu:1"), 3, 3, 0, 0, 1, 2, 2)
	for each, want := range map[int][]string{
		1: {"12-13 [0]", "14-15 [1]", "0-1 [2]", "2-3 [3]", "4-7 [4]", "8-9 [5]", "10-11 [6]"},
		2: {"12-15 [0 1]", "0-3 [2 3]", "4-11 [4 5]"},
		3: {"0-1,12-15 [0 1 2]", "2-11 [3 4 5]"},
	} {
		layout, err := Map(Request{GPUsPerRank: each, MapBy: MapBy{Object: ByGPU}}, []Machine{m})
		require.NoError(t, err)
		var got []string
		for _, rank := range layout.Ranks {
			var gpus []int
			for _, gpu := range rank.GPUs {
				gpus = append(gpus, gpu.Index)
			}
			got = append(got, fmt.Sprint(rank.CPUs, " ", gpus))
		}
		assert.Equal(t, want, got, each)
	}
}

// Several ranks on one CPU share it. All ranks share a quota.
func TestThreads(t *testing.T) {
	m := synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2")
	numa := Request{Ranks: 6, BindTo: BindTo{Given: true, Object: ByNUMA}}
	layout, err := Map(numa, []Machine{m})
	require.NoError(t, err)
	assert.Equal(t, 2, layout.Ranks[0].Threads, "three ranks on eight CPUs")
	m.Quota = 8
	layout, err = Map(numa, []Machine{m})
	require.NoError(t, err)
	assert.Equal(t, 1, layout.Ranks[0].Threads, "six ranks in the time of eight CPUs")
}

// These cases cover several nodes: the node of each rank and the numbering of ranks.
func TestMapOverNodes(t *testing.T) {
	two := []Machine{synthetic(t, "pack:2 numa:1 l3:1 core:2 pu:1"), synthetic(t, "pack:2 numa:1 l3:1 core:2 pu:1")}
	tests := []struct {
		mapBy, rankBy string
		ranks         int
		want          string // node:CPUs of each rank
	}{
		{"slot", "", 4, "0:0 0:1 0:2 0:3"},
		{"node", "", 4, "0:0-1 1:0-1 0:2-3 1:2-3"},
		{"node", "slot", 4, "0:0-1 0:2-3 1:0-1 1:2-3"},
		{"core", "", 6, "0:0 0:1 0:2 0:3 1:0 1:1"},
		{"core:span", "", 6, "0:0 0:1 0:2 1:0 1:1 1:2"},
		{"core:span", "span", 6, "0:0 0:1 0:2 1:0 1:1 1:2"},
		{"package", "", 8, "0:0-1 0:2-3 0:0-1 0:2-3 1:0-1 1:2-3 1:0-1 1:2-3"},
		{"package", "span", 8, "0:0-1 0:2-3 1:0-1 1:2-3 0:0-1 0:2-3 1:0-1 1:2-3"},
		{"package", "fill", 8, "0:0-1 0:0-1 0:2-3 0:2-3 1:0-1 1:0-1 1:2-3 1:2-3"},
		{"ppr:1:package", "", 0, "0:0-1 0:2-3 1:0-1 1:2-3"},
		{"ppr:1:package", "node", 0, "0:0-1 1:0-1 0:2-3 1:2-3"},
	}
	for _, test := range tests {
		t.Run(test.mapBy+" "+test.rankBy, func(t *testing.T) {
			r := Request{Ranks: test.ranks, Slots: []int{4, 4}}
			var err error
			r.MapBy, err = ParseMapBy(test.mapBy)
			require.NoError(t, err)
			if test.rankBy != "" {
				r.RankBy, err = ParseRankBy(test.rankBy)
				require.NoError(t, err)
			}
			layout, err := Map(r, two)
			require.NoError(t, err)
			var got []string
			locals := make([]int, 2)
			for _, rank := range layout.Ranks {
				got = append(got, fmt.Sprintf("%d:%s", rank.Node, rank.CPUs))
				assert.Equal(t, locals[rank.Node], rank.LocalRank)
				locals[rank.Node]++
			}
			assert.Equal(t, test.want, strings.Join(got, " "))
			assert.Equal(t, layout.PerNode, locals)
		})
	}
}

func TestGPUChoice(t *testing.T) {
	m := withGPUs(synthetic(t, "pack:2 numa:1 l3:1 core:8 pu:1"), 0, 0, 1, 1)
	m.GPUs[0].Used = true
	indices := func(r Request) (list []int, reason string) {
		layout, err := Map(r, []Machine{m})
		require.NoError(t, err)
		for _, rank := range layout.Ranks {
			for _, gpu := range rank.GPUs {
				list = append(list, gpu.Index)
			}
		}
		return list, layout.Reason
	}
	list, reason := indices(Request{GPUs: GPUChoice{Free: true}})
	assert.Equal(t, []int{1, 2, 3}, list)
	assert.Equal(t, "3 ranks: one per GPU (3 of 4 GPUs, --gpus free)", reason)
	list, reason = indices(Request{GPUs: GPUChoice{Indices: []int{3, 1}}})
	assert.Equal(t, []int{3, 1}, list)
	assert.Equal(t, "2 ranks: one per GPU (2 of 4 GPUs, --gpus 3,1)", reason)
	list, reason = indices(Request{GPUsPerRank: 2})
	assert.Equal(t, []int{0, 1, 2, 3}, list)
	assert.Equal(t, "2 ranks: one per 2 GPUs (4 GPUs)", reason)
}

func TestRankFile(t *testing.T) {
	text := "# ranks\nrank 1=b slot=0:1;1:0  # both\n\nrank 0 = a slots=0-1,3\nrank 2=+n1 slot=1:*\nrank 3=a slot=*\n" +
		"rank 4=a slot=1:0,1\n"
	file, err := ParseRankFile("--rankfile r", text)
	require.NoError(t, err)
	two := []Machine{synthetic(t, "pack:2 numa:1 l3:1 core:2 pu:2"), synthetic(t, "pack:2 numa:1 l3:1 core:2 pu:2")}
	hosts := []string{"a", "b"}
	layout, err := Map(Request{RankFile: file, Hosts: hosts}, two)
	require.NoError(t, err)
	var got []string
	for _, r := range layout.Ranks {
		got = append(got, fmt.Sprintf("%d.%d:%s", r.Node, r.LocalRank, r.CPUs))
	}
	assert.Equal(t, "0.0:0-3,6-7 1.0:2-5 1.1:4-7 0.1:0-7 0.2:4-7", strings.Join(got, " "))
	assert.Equal(t, []int{3, 2}, layout.PerNode)
	assert.Equal(t, "5 ranks: --rankfile r", layout.Reason)

	written, err := layout.RankFile(hosts, two)
	require.NoError(t, err)
	assert.Equal(t, "rank 0=a slot=0-1,3\nrank 1=b slot=1-2\nrank 2=b slot=2-3\nrank 3=a slot=0-3\nrank 4=a slot=2-3\n",
		written)
	again, err := ParseRankFile("--rankfile r", written)
	require.NoError(t, err)
	second, err := Map(Request{RankFile: again, Hosts: hosts}, two)
	require.NoError(t, err)
	for rank := range layout.Ranks {
		assert.Equal(t, layout.Ranks[rank].CPUs, second.Ranks[rank].CPUs)
	}
	layout.Ranks[1].CPUs = NewCPUSet(0)
	_, err = layout.RankFile(hosts, two)
	assert.EqualError(t, err, "rank 1: its CPUs 0 are not whole cores, and rank files name only whole cores")
}

func TestRankFileErrors(t *testing.T) {
	tests := map[string]string{
		"":                                       "f: the file has no line `rank 0=HOST slot=CORES`",
		"rank 0=a":                               "f line 1: \"rank 0=a\" is not of the form `rank N=HOST slot=CORES`",
		"rank x=a slot=0":                        `f line 1: "x" is not a rank`,
		"rank 0=a slot=0\nrank 0=b slot=1":       "f line 2: rank 0 already has a place in line 1",
		"rank 0=a slot=0\n\nrank 2=b slot=1":     "f: rank 1 has no line; the file has lines for 2 ranks, up to rank 2",
		"rank 1048577=a slot=0\nrank 0=a slot=1": `f line 1: "1048577" is not a rank`,
	}
	for text, want := range tests {
		t.Run(want, func(t *testing.T) {
			_, err := ParseRankFile("f", text)
			assert.EqualError(t, err, want)
		})
	}
}

func TestNeedsNICs(t *testing.T) {
	assert.True(t, Request{MapBy: MapBy{Object: ByNIC}}.NeedsNICs())
	assert.True(t, Request{MapBy: MapBy{Object: ByDistance}}.NeedsNICs())
	assert.True(t, Request{RankBy: RankBy{Object: ByNIC}}.NeedsNICs())
	assert.False(t, Request{MapBy: MapBy{Object: ByCore}, GPUsPerRank: 2}.NeedsNICs())
}

// Numbering takes linear time in the number of ranks, because it visits each assignment once.
func TestPlacementsAreComputedOnce(t *testing.T) {
	const assignments, kinds = 400, 8
	looked := 0
	w := walk{nodes: []mapping{{assignments: make([]assignment, assignments)}}, taken: [][]bool{make([]bool, assignments)}}
	var stops []stop
	for j := range w.nodes[0].assignments {
		w.nodes[0].assignments[j].object = j * kinds / assignments
	}
	for kind := range kinds {
		stops = append(stops, stop{has: func(s assignment) bool { looked++; return s.object == kind }})
	}
	w.roundRobin(stops)
	w.numberRest()
	assert.Len(t, w.ranks, assignments)
	assert.LessOrEqual(t, looked, assignments*kinds)
	assert.Equal(t, [][2]int{{0, 0}, {0, 50}, {0, 100}}, w.ranks[:3])
}
