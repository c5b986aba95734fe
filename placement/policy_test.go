package placement

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// sampleMachines have all shapes that are relevant to policies.
func sampleMachines(t testing.TB) map[string]Machine {
	t.Helper()
	nearby := func(m Machine, allowed string) Machine {
		var err error
		m.CPUs, err = ParseCPUSet(allowed)
		require.NoError(t, err)
		return m
	}
	isolated := synthetic(t, "pack:2 numa:1 l3:1 core:8 pu:2")
	isolated.Topology.Isolated = NewCPUSet(0, 1, 2, 3)
	hybrid := synthetic(t, "pack:1 numa:1 l3:1 core:14 pu:1")
	for i := range hybrid.Topology.CPUs[6:] {
		hybrid.Topology.CPUs[6+i].Kind = 1
	}
	flat := synthetic(t, "pack:1 numa:1 core:6 pu:1")
	for i := range flat.Topology.CPUs {
		cpu := &flat.Topology.CPUs[i]
		*cpu = CPU{ID: cpu.ID, Package: -1, Die: -1, L3: -1, L2: -1, Core: -1}
	}
	quota := synthetic(t, "pack:1 numa:1 core:8 pu:2")
	quota.Quota = 2.5
	machines := map[string]Machine{
		"one CPU":             synthetic(t, "pack:1 numa:1 core:1 pu:1"),
		"laptop":              renumbered(synthetic(t, "pack:1 numa:1 l3:1 l2:4 core:1 pu:2")),
		"hybrid":              hybrid,
		"nothing known":       flat,
		"quota":               quota,
		"two packages":        renumbered(synthetic(t, "pack:2 numa:1 l3:1 core:32 pu:2")),
		"many caches":         renumbered(synthetic(t, "pack:2 numa:1 l3:8 core:8 pu:2")),
		"sub-NUMA":            synthetic(t, "pack:2 numa:4 l3:2 core:3 pu:1"),
		"four small packages": synthetic(t, "pack:4 numa:1 l3:1 core:2 pu:2"),
		"isolated":            isolated,
		"a part is allowed":   nearby(renumbered(synthetic(t, "pack:2 numa:1 l3:1 core:56 pu:2")), "4-11,60-63,116-123"),
		"half cores":          nearby(synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2"), "1,3,5-7,9,12-15"),
		"DGX A100":            withGPUs(renumbered(synthetic(t, "pack:2 numa:4 l3:4 core:4 pu:2")), 3, 3, 1, 1, 7, 7, 5, 5),
		"DGX H100":            withGPUs(renumbered(synthetic(t, "pack:2 numa:1 l3:1 core:56 pu:2")), 0, 0, 0, 0, 1, 1, 1, 1),
		"all GPUs at one":     withGPUs(synthetic(t, "pack:2 numa:1 l3:1 core:4 pu:2"), 1, 1, 1, 1),
		"GPUs, not allowed":   nearby(withGPUs(synthetic(t, "pack:2 numa:2 l3:1 core:8 pu:1"), 3, 3, 0, 0), "0-23"),
		"GPUs, not known":     withGPUs(synthetic(t, "pack:1 numa:1 l3:1 core:16 pu:2"), -1, -1),
	}
	for _, name := range Examples() {
		var err error
		machines["example "+name], err = Example(name)
		require.NoError(t, err)
	}
	return machines
}

func samplePolicies() map[string]Request {
	parse := func(mapBy, bindTo, rankBy string) Request {
		var r Request
		var err error
		if mapBy != "" {
			r.MapBy, err = ParseMapBy(mapBy)
		}
		if bindTo != "" && err == nil {
			r.BindTo, err = ParseBindTo(bindTo)
		}
		if rankBy != "" && err == nil {
			r.RankBy, err = ParseRankBy(rankBy)
		}
		if err != nil {
			panic(err)
		}
		return r
	}
	policies := map[string]Request{"default": {}}
	for _, object := range []string{
		"slot", "node", "numa", "package", "l3cache", "l2cache", "core", "hwthread", "gpu",
		"ppr:64:node", "ppr:8:package", "ppr:16:numa:span", "ppr:1:core", "ppr:8:gpu", "package:pe=2", "slot:pe=3", ":span",
	} {
		policies["map-by "+object] = parse(object, "", "")
	}
	for _, object := range []string{
		"none", "board", "core", "hwthread", "l3cache", "numa", "package", "core:2",
		"core:overload-allowed", "user:0+1",
	} {
		policies["bind-to "+object] = parse("", object, "")
	}
	policies["map-by numa, bind-to core"] = parse("numa", "core", "")
	policies["map-by package, rank-by fill"] = parse("package", "", "fill")
	policies["rank-by span"] = parse("", "", "span")
	for _, binding := range []NUMABinding{NUMANodeBinding, NUMASocketBinding, NUMAExclusive, NUMACoreComplex} {
		policies["numa-binding "+string(binding)] = Request{NUMABinding: binding}
	}
	policies["cpus-per-rank 3"] = Request{CPUsPerRank: 3}
	policies["gpus-per-rank 2"] = Request{GPUsPerRank: 2}
	return policies
}

// overlapping lists the policies under which ranks may share CPUs.
func overlapping(name string) bool {
	for _, word := range []string{
		"bind-to numa", "bind-to package", "bind-to l3cache", "bind-to hwthread:2", "overload", "user:",
		"numa-binding node", "numa-binding socket", "core-complex",
		"map-by numa", "map-by package", "map-by l3cache", "map-by l2cache",
	} {
		if strings.Contains(name, word) && name != "map-by numa, bind-to core" && name != "map-by package:pe=2" {
			return true
		}
	}
	return false
}

// For any request on any machine, the CPUs of all ranks are allowed. Ranks share CPUs only if
// requested. All ranks are present, and the result is deterministic.
func TestPoliciesOnMachines(t *testing.T) {
	shift := testneeds.Rand(t).IntN(16) // the larger counts in the sample; make soak runs all
	for machineName, m := range sampleMachines(t) {
		for policyName, req := range samplePolicies() {
			t.Run(machineName+"/"+policyName, func(t *testing.T) {
				step := testneeds.Count(4, 1)
				if strings.HasPrefix(machineName, "example ") {
					step = testneeds.Count(8, 1) // the other machines cover all shapes
				}
				for n := 1; n <= 64; n++ {
					if n > 8 && n%step != shift%step {
						continue
					}
					req.Ranks = n
					layout, err := Map(req, []Machine{m})
					if err != nil {
						assert.NotEmpty(t, err.Error())
						assert.False(t, policyName == "default" || strings.HasPrefix(policyName, "bind-to none"), "%d ranks: %v", n, err)
						continue
					}
					if n%16 == shift {
						again, _ := Map(req, []Machine{m})
						require.True(t, reflect.DeepEqual(layout, again), "%d ranks: it is another layout", n)
					}
					checkLayout(t, policyName, m, layout, n, overlapping(policyName))
				}
			})
		}
	}
}

func checkLayout(t *testing.T, what string, m Machine, layout Layout, n int, overlap bool) {
	t.Helper()
	var taken CPUSet
	bound := 0
	for rank, r := range layout.Ranks {
		wrong := ""
		switch {
		case !r.CPUs.SubsetOf(m.CPUs):
			wrong = "it has CPUs that are not allowed"
		case !overlap && taken.Intersects(r.CPUs):
			wrong = "it has CPUs of others, which have " + taken.String()
		case r.LocalRank != rank || r.Reason == "":
			wrong = fmt.Sprintf("its local rank is %d, its reason %q", r.LocalRank, r.Reason)
		case r.Threads < 1 || r.Threads > m.UsableCPUs():
			wrong = fmt.Sprintf("it is to have %d threads", r.Threads)
		}
		if wrong != "" {
			t.Fatalf("%s, %d ranks, rank %d on CPUs %s: %s", what, n, rank, r.CPUs, wrong)
		}
		if r.CPUs.Len() > 0 {
			bound++
		}
		taken = taken.Union(r.CPUs)
	}
	require.Len(t, layout.Ranks, n, what)
	require.True(t, bound == 0 || bound == n, "%s: %d of %d ranks are bound", what, bound, n)
}

// Under gorun's default policy, the core counts of ranks on one node differ by at most one. Ranks have
// whole cores, in one NUMA node and one cache if they fit.
func TestShareIsFair(t *testing.T) {
	for name, m := range sampleMachines(t) {
		if len(m.GPUs) > 0 && m.GPUs[0].Bus.Node >= 0 {
			continue
		}
		tr := newTree(numbered(0), m)
		for n := 2; n <= len(tr.cores); n++ {
			layout, err := Map(Request{Ranks: n}, []Machine{m})
			require.NoError(t, err)
			low, high := len(tr.cores), 0
			for rank, r := range layout.Ranks {
				cores := tr.coresIn(r.CPUs)
				require.True(t, cpusOf(cores).Equal(r.CPUs), "%s, %d ranks: rank %d has %s, no whole cores", name, n, rank, r.CPUs)
				low, high = min(low, len(cores)), max(high, len(cores))
			}
			require.LessOrEqual(t, high-low, 1, "%s, %d ranks", name, n)
			require.GreaterOrEqual(t, 4*low, 3*(len(tr.cores)/n), "%s, %d ranks", name, n)
			checkBoundaries(t, name, tr, layout, low)
		}
	}
}

// With GPUs, every rank has cores of each NUMA node of its GPUs. The core counts of ranks on one node
// differ by at most one.
func TestShareNearGPUsIsFair(t *testing.T) {
	for name, m := range sampleMachines(t) {
		if len(m.GPUs) == 0 || m.GPUs[0].Bus.Node < 0 {
			continue
		}
		tr := newTree(numbered(0), m)
		for _, each := range []int{1, 2, 3} {
			for n := 2; n*each <= len(m.GPUs) && n <= len(tr.cores); n++ {
				layout, err := Map(Request{Ranks: n, GPUsPerRank: each}, []Machine{m})
				require.NoError(t, err)
				if strings.Contains(strings.Join(layout.Notes, ""), "too few cores") { // then ranks share cores
					continue
				}
				for rank, r := range layout.Ranks {
					require.True(t, tr.knownGPUNodes(r.GPUs).SubsetOf(tr.nodesOf(r.CPUs)),
						"%s, %d ranks with %d GPUs each: rank %d has %s", name, n, each, rank, r.CPUs)
				}
				for i, node := range tr.nodes {
					low, high := len(tr.cores), 0
					for _, r := range layout.Ranks {
						if nodes := tr.knownGPUNodes(r.GPUs); nodes.Has(node) {
							cores := tr.units(tr.onNode[i].Without(tr.onNode[i].Without(r.CPUs)), false)
							low, high = min(low, cores), max(high, cores)
						}
					}
					require.LessOrEqual(t, high-low, 1, "%s, %d ranks with %d GPUs each: NUMA node %d", name, n, each, node)
				}
			}
		}
	}
}

// checkBoundaries fails if a rank crosses a boundary although all ranks fit inside with the same
// number of cores.
func checkBoundaries(t *testing.T, name string, tr *tree, layout Layout, low int) {
	t.Helper()
	for _, kind := range []Object{ByNUMA, ByL3} {
		room := 0
		for _, set := range tr.objects(kind) {
			room += tr.units(set, false) / low
		}
		for rank, r := range layout.Ranks {
			parts := 0
			for _, set := range tr.objects(kind) {
				if set.Intersects(r.CPUs) {
					parts++
				}
			}
			require.False(t, parts > 1 && room >= len(layout.Ranks),
				"%s, %d ranks: rank %d has %s, of %d %ss, but there is room for %d ranks with %d cores",
				name, len(layout.Ranks), rank, r.CPUs, parts, kind, room, low)
		}
	}
}

// If a GPU's NUMA node has room, the CPUs of its rank are there.
func TestRanksAreNearTheirGPUs(t *testing.T) {
	for _, name := range []string{"DGX A100", "DGX H100"} {
		m := sampleMachines(t)[name]
		tr := newTree(numbered(0), m)
		for _, each := range []int{1, 2, 4} {
			for n := 2; n*each <= len(m.GPUs); n++ {
				layout, err := Map(Request{Ranks: n, GPUsPerRank: each}, []Machine{m})
				require.NoError(t, err)
				for rank, r := range layout.Ranks {
					require.Len(t, r.GPUs, each)
					var near CPUSet
					for i, gpu := range r.GPUs {
						require.Equal(t, rank*each+i, gpu.Index)
						near = near.Union(tr.nodeCPUs(gpu.Bus.Node))
					}
					require.True(t, r.CPUs.SubsetOf(near), "%s, rank %d: %s is not near to its GPUs (%s)", name, rank, r.CPUs, near)
					require.GreaterOrEqual(t, len(tr.coresIn(r.CPUs)), 2)
					require.Equal(t, tr.memories(near), r.Memories)
				}
			}
		}
	}
}

// A program uses the GPU of its local rank. Therefore no order of ranks may move a rank's CPUs near
// another GPU.
func TestRankByKeepsGPUs(t *testing.T) {
	m := sampleMachines(t)["DGX A100"]
	for _, order := range []string{"numa:fill", "span", "core", "node"} {
		rankBy, err := ParseRankBy(order)
		require.NoError(t, err)
		layout, err := Map(Request{RankBy: rankBy}, []Machine{m, m})
		require.NoError(t, err)
		for rank, r := range layout.Ranks {
			assert.Equal(t, r.LocalRank, r.GPU.Index, "%s, rank %d", order, rank)
			assert.Equal(t, NewCPUSet(r.GPU.Bus.Node), r.Memories, "%s, rank %d", order, rank)
		}
		assert.Equal(t, order == "node" || order == "span", layout.Ranks[1].Node == 1, order)
	}
}

func TestShareExamples(t *testing.T) {
	machines := sampleMachines(t)
	tests := []struct {
		machine string
		req     Request
		cpus    []string
		threads int // of rank 0
		notes   []string
	}{
		{"two packages", Request{Ranks: 1}, []string{""}, 128, nil},
		{"two packages", Request{Ranks: 2}, []string{"0-31,64-95", "32-63,96-127"}, 64, nil},
		{"two packages", Request{Ranks: 3}, []string{"0-15,64-79", "16-31,80-95", "32-48,96-112"}, 32, nil},
		{
			"many caches",
			Request{Ranks: 4},
			[]string{"0-31,128-159", "32-63,160-191", "64-95,192-223", "96-127,224-255"},
			64, nil,
		},
		{"sub-NUMA", Request{Ranks: 7}, []string{"0-5", "6-11", "12-17", "18-23", "24-29", "30-35", "36-41"}, 6, nil},
		{"four small packages", Request{Ranks: 3}, []string{"0-3", "4-7", "8-11"}, 4, nil},
		{"hybrid", Request{Ranks: 2}, []string{"0-5", "6-12"}, 6, nil},
		{"quota", Request{Ranks: 2}, []string{"0-7", "8-15"}, 1, nil},
		{"isolated", Request{Ranks: 2}, []string{"4-15", "16-29"}, 12, nil},
		{"half cores", Request{Ranks: 2}, []string{"1,3,5-7", "9,12-15"}, 5, nil},
		{
			"laptop",
			Request{Ranks: 5},
			[]string{"", "", "", "", ""},
			1,
			[]string{"5 ranks share 4 cores, so no rank is bound to CPUs"},
		},
		{"one CPU", Request{Ranks: 2}, []string{"", ""}, 1, []string{"2 ranks share 1 CPU, so no rank is bound to CPUs"}},
		{"DGX H100", Request{Ranks: 4}, []string{"0-13,112-125", "14-27,126-139", "28-41,140-153", "42-55,154-167"}, 28, nil},
		{
			"all GPUs at one",
			Request{Ranks: 4},
			[]string{"8-11", "12-15", "0-3", "4-7"},
			4,
			[]string{"NUMA node 1 has too few cores for the 4 ranks near it: they also use cores of node 0"},
		},
		{
			"GPUs, not allowed",
			Request{Ranks: 4},
			[]string{"16-19", "20-23", "0-3", "4-7"},
			4,
			[]string{"you may use no CPU of NUMA node 3 on node 0: the ranks of GPU 0, GPU 1 run on NUMA node 2, the nearest"},
		},
		{"GPUs, not known", Request{Ranks: 2}, []string{"0-15", "16-31"}, 16, nil},
		{"two packages", Request{Ranks: 3, CPUsPerRank: 4}, []string{"0-1,64-65", "2-3,66-67", "32-33,96-97"}, 4, nil},
		{"DGX H100", Request{Ranks: 2, CPUsPerRank: 3, GPUsPerRank: 4}, []string{"0-1,112-113", "56-57,168-169"}, 4, nil},
		{"DGX H100", Request{Ranks: 2, NUMABinding: NUMANodeBinding}, []string{"0-55,112-167", "0-55,112-167"}, 56, nil},
		{"DGX H100", Request{Ranks: 8, NUMABinding: NUMAExclusive}, []string{"0-13,112-125"}, 28, nil},
		{"DGX A100", Request{Ranks: 2, NUMABinding: NUMASocketBinding}, []string{"0-63,128-191", "0-63,128-191"}, 64, nil},
		{"DGX A100", Request{Ranks: 2, NUMABinding: NUMACoreComplex}, []string{"48-51,176-179", "52-55,180-183"}, 8, nil},
		{
			"two packages",
			Request{Ranks: 2, NUMABinding: NUMANodeBinding},
			[]string{"0-31,64-95", "32-63,96-127"},
			64,
			[]string{"the NUMA nodes of some GPUs of node 0 are unknown: --numa-binding spreads its ranks over all NUMA nodes"},
		},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.machine, test.req.Ranks, test.req.NUMABinding, test.req.CPUsPerRank), func(t *testing.T) {
			layout, err := Map(test.req, []Machine{machines[test.machine]})
			require.NoError(t, err)
			for rank, want := range test.cpus {
				assert.Equal(t, want, layout.Ranks[rank].CPUs.String(), "rank %d (%s)", rank, layout.Ranks[rank].Reason)
			}
			assert.Equal(t, test.threads, layout.Ranks[0].Threads)
			assert.Equal(t, test.notes, layout.Notes)
		})
	}
}
