package job

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/placement"
)

// appsOn returns a spec for two programs on hosts with these slots.
func appsOn(first, second int, slots ...int) (*Spec, []Facts) {
	spec, facts := onHosts(slots...)
	spec.Apps = []App{{Program: "./server", NumRanks: first}, {Program: "./client", NumRanks: second}}
	for i := range facts {
		facts[i].Programs = []Program{
			{Path: "/srv/server", Argv: []string{"./server"}, Kind: "executable"},
			{Path: "/srv/client", Argv: []string{"./client"}, Kind: "executable"},
		}
	}
	return spec, facts
}

// layoutOf returns the program, host and local rank of each rank.
func layoutOf(p *Plan) (text string) {
	for _, r := range p.Ranks {
		text += fmt.Sprintf("%d:%s.%d ", r.App, p.Nodes[r.Node].Name, r.LocalRank)
	}
	return text
}

func TestHostsOfPrograms(t *testing.T) {
	spec, facts := appsOn(1, 4, 2, 2, 2)
	spec.Apps[0].Hosts = spec.Hosts[1:2]
	assert.Equal(t, "0:node2.0 1:node1.0 1:node1.1 1:node2.1 1:node3.0 ", layoutOf(planOf(t, spec, facts)),
		"the second takes the slots that are left")

	spec.Apps[1].Hosts = []hosts.Host{{Name: "node3", Slots: 2}, {Name: "node1", Slots: 2}}
	missing := Program{Error: "no such file"}
	facts[0].Programs[0], facts[1].Programs[1] = missing, missing
	p := planOf(t, spec, facts)
	assert.Equal(t, "0:node2.0 1:node1.0 1:node1.1 1:node3.0 1:node3.1 ", layoutOf(p))
	assert.Equal(t, "/srv/server", p.Apps[0].Path, "as on the host that runs it")
	assert.Equal(t, "/srv/client", p.AppsOf(1)[1].Path)

	spec.Apps[1].NumRanks = 5
	_, err := NewPlan(spec, facts, testIDs, Opened{})
	require.ErrorContains(t, err, "./client: -n 5 of ./client is more than the 4 slots of 2 nodes")
	spec.Oversubscribe = true
	assert.Len(t, planOf(t, spec, facts).Ranks, 6)
}

// Programs with different placements share no CPUs.
func TestPlacesOfPrograms(t *testing.T) {
	spec, facts := appsOn(2, 4, 6)
	facts[0].Machine = eightCores()
	bind, err := placement.ParseBindTo("core")
	require.NoError(t, err)
	spec.Apps[1].Place = &PlacementSpec{Request: placement.Request{BindTo: bind}}
	assert.True(t, spec.Request().NeedsTopology())
	p := planOf(t, spec, facts)
	all := placement.CPUSet{}
	for _, r := range p.Ranks {
		assert.Zero(t, all.Len()-all.Without(r.CPUs).Len(), "rank %d has CPUs of another one", r.Rank)
		all = all.Union(r.CPUs)
		assert.Positive(t, r.CPUs.Len())
	}
	assert.Equal(t, 1, p.Ranks[5].CPUs.Len())
	assert.Equal(t, 2, p.Ranks[0].CPUs.Len(), "of the four that are left each has its share")
}

// eightCores is a machine of one package.
func eightCores() placement.Machine {
	topology := &placement.Topology{}
	for i := range 8 {
		topology.CPUs = append(topology.CPUs, placement.CPU{ID: i, Core: i})
	}
	return placement.Machine{CPUs: placement.CPUSetOf([]uint64{0xff}), Topology: topology}
}

func TestVariablesOfPrograms(t *testing.T) {
	spec, facts := appsOn(1, 2, 2, 2)
	spec.Exports = []Export{{Name: "BOTH", Value: "b", HasValue: true}}
	spec.Apps[1].Exports = []Export{
		{Name: "OWN", Value: "1", HasValue: true},
		{Name: "BOTH", Value: "c", HasValue: true},
		{Name: "NCCL_DEBUG", Remove: true},
	}
	p := planOf(t, spec, facts)
	assert.Equal(t, "b", p.variable(0, "BOTH").Value)
	assert.Equal(t, "c", p.variable(1, "BOTH").Value)
	assert.Equal(t, "c", p.variable(2, "BOTH").Value)
	assert.Empty(t, p.variable(0, "OWN").Name)
	assert.Equal(t, "1", p.variable(2, "OWN").Value)
	assert.Equal(t, "INFO", p.variable(0, "NCCL_DEBUG").Value)
	assert.Empty(t, p.variable(1, "NCCL_DEBUG").Name)

	spec.ExportsOnly = true
	assert.Empty(t, planOf(t, spec, facts).variable(0, "PATH").Name)

	spec.Apps[0].Exports = []Export{{Name: "RANK", Value: "7", HasValue: true, From: "-env RANK 7"}}
	_, err := NewPlan(spec, facts, testIDs, Opened{})
	require.ErrorContains(t, err, "-env RANK 7: gorun sets RANK for each rank")
}
