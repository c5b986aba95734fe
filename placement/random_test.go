package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// randomMachine returns a random machine, as irregular as real ones.
func randomMachine(t testing.TB, random *rand.Rand) (Machine, string) {
	t.Helper()
	few := func(n int) int { return 1 + random.IntN(n) }
	description := fmt.Sprintf("pack:%d numa:%d l3:%d core:%d pu:%d", few(3), few(3), few(3), few(5), few(2))
	m := synthetic(t, description)
	if random.IntN(2) == 0 {
		m = renumbered(m)
	}
	var allowed, isolated []int
	unknown := random.IntN(8)
	for i := range m.Topology.CPUs {
		cpu := &m.Topology.CPUs[i]
		if random.IntN(5) > 0 {
			allowed = append(allowed, cpu.ID)
		}
		if random.IntN(8) == 0 {
			isolated = append(isolated, cpu.ID)
		}
		switch {
		case unknown == 0:
			cpu.Package, cpu.L3 = -1, -1
		case unknown == 1:
			cpu.Core = -1
		case unknown == 2 && random.IntN(3) == 0:
			cpu.L3 = -1
		case unknown == 3:
			cpu.Kind = cpu.Core % 2
		}
	}
	if len(allowed) > 0 {
		m.CPUs = NewCPUSet(allowed...)
	}
	m.Topology.Isolated = NewCPUSet(isolated...)
	var near []int
	for range random.IntN(9) {
		near = append(near, random.IntN(len(m.Topology.Nodes)+1)-1)
	}
	if random.IntN(3) == 0 {
		m.Quota = random.Float64() * 8
	}
	return withNICs(withGPUs(m, near...), 0, len(m.Topology.Nodes)-1), description
}

// On any machine and under any policy, there is no panic, and the invariants hold.
func TestMapOnRandomMachines(t *testing.T) {
	random := testneeds.Rand(t)
	policies := samplePolicies()
	var names []string
	for name := range policies {
		names = append(names, name)
	}
	for range testneeds.Count(3000, 300_000) {
		m, description := randomMachine(t, random)
		name := names[random.IntN(len(names))]
		req := policies[name]
		req.Ranks = 1 + random.IntN(24)
		layout, err := Map(req, []Machine{m})
		if err != nil {
			require.NotEqual(t, "default", name, "%s: %v", description, err)
			continue
		}
		checkLayout(t, fmt.Sprintf("%s, CPUs %s, %s", description, m.CPUs, name), m, layout, req.Ranks, overlapping(name))
	}
}

// Ranks get no CPUs if only the CPU count of the machine is known. A node may have no rank.
func TestMapWhereLittleIsKnown(t *testing.T) {
	empty := Machine{Topology: &Topology{}}
	for _, m := range []Machine{{}, empty, {Topology: &Topology{}, CPUs: NewCPUSet(0, 1)}} {
		layout, err := Map(Request{Ranks: 3}, []Machine{m})
		require.NoError(t, err)
		assert.Empty(t, layout.Ranks[2].CPUs)
	}
	_, err := Map(Request{Ranks: 3, CPUsPerRank: 1}, []Machine{empty})
	assert.EqualError(t, err, "--cpus-per-rank 1: the usable CPUs of node 0 are unknown")

	two := synthetic(t, "pack:2 numa:1 core:2 pu:1")
	layout, err := Map(Request{Ranks: 2, Slots: []int{2, 2}, MapBy: MapBy{Object: ByPackage}}, []Machine{two, two})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 0}, layout.PerNode)
}

func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"ppr:2:socket:pe=2,span", "dist:mlx5_0", ":oversubscribe", "user:0+2,1", "core:2",
		"numa:fill", "2,4-7", "0-65535", "free", "rank 0=+n0 slot=0:*;1:0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseMapBy(text); err == nil {
			m.From = ""
			again, err := ParseMapBy(strings.TrimPrefix(m.String(), "--map-by "))
			if err == nil {
				again.From = ""
			}
			if err != nil && m != (MapBy{}) || err == nil && again != m {
				t.Errorf("%q is %+v, written %q, which is %+v (%v)", text, m, m, again, err)
			}
		}
		_, _ = ParseBindTo(text)
		_, _ = ParseRankBy(text)
		_, _ = ParseGPUs(text)
		file, err := ParseRankFile("f", text)
		if err == nil && len(file.Lines) < 100 {
			_, _ = Map(Request{RankFile: file, Hosts: []string{"a"}}, []Machine{synthetic(t, "pack:2 numa:1 core:2 pu:2")})
		}
	})
}
