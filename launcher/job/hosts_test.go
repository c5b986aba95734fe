package job

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/hosts"
	"gorun/placement"
)

var testIDs = IDs{Job: "j", Run: "r", Dir: "0123456789abcdef", World: "j"}

var writeGoldens = flag.Bool("goldens", false, "write testdata/plans again")

// onHosts returns a spec for hosts with these slots, and their facts. The first one is the launcher's.
func onHosts(slots ...int) (*Spec, []Facts) {
	spec := &Spec{
		Apps: []App{{Program: "./trainer"}}, HostsFrom: "-H …", RunID: "run",
		Environ: []string{"PATH=/bin", "HOME=/home/here", "MINE=1", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=1"},
	}
	var facts []Facts
	for i, n := range slots {
		name := fmt.Sprint("node", i+1)
		spec.Hosts = append(spec.Hosts, hosts.Host{Name: name, Slots: n})
		facts = append(facts, Facts{
			Facts: NodeFacts{
				Host: name, TempDir: "/tmp", Environ: []string{"HOME=/home/there", "EDITOR=vi"},
				Programs: []Program{{Path: "/srv/trainer", Argv: []string{"./trainer"}, ScriptArg: 1, Kind: "executable"}},
			},
			Remote:   i > 0,
			Endpoint: plan.Endpoint{Address: fmt.Sprint("10.0.0.", i+1), Interface: fmt.Sprint("eth", i)},
		})
	}
	return spec, facts
}

func planOf(t *testing.T, spec *Spec, facts []Facts) *Plan {
	t.Helper()
	p, err := NewPlan(spec, facts, testIDs,
		Opened{Addr: "10.0.0.1", Port: 29500, Store: "10.0.0.1:29500"})
	require.NoError(t, err)
	return p
}

// TestPlansOfHosts compares whole plans on uneven hosts with golden files; -goldens rewrites them.
func TestPlansOfHosts(t *testing.T) {
	for name, slots := range map[string][]int{"two-hosts": {1, 2}, "three-hosts": {2, 1, 3}} {
		t.Run(name, func(t *testing.T) {
			spec, facts := onHosts(slots...)
			last := &facts[len(facts)-1]
			last.TempDir, last.Programs = "/scratch",
				[]Program{{Path: "/opt/trainer", Argv: []string{"/opt/trainer"}, ScriptArg: 1, Kind: "executable"}}
			compareGolden(t, name, planOf(t, spec, facts))
		})
	}
}

func compareGolden(t *testing.T, name string, p *Plan) {
	t.Helper()
	text, err := json.MarshalIndent(p, "", " ")
	require.NoError(t, err)
	file := filepath.Join("testdata", "plans", name+".json")
	if *writeGoldens {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(text)+"\n")
}

// A plan contains the variables of a node once, and few variables that differ by rank.
func TestNodesOfAPlan(t *testing.T) {
	spec, facts := onHosts(2, 1)
	p := planOf(t, spec, facts)
	assert.Equal(t, AtStart, p.variable(2, "TORCHELASTIC_ERROR_FILE").Value, "where its node says")
	assert.Equal(t, AtStart, p.variable(2, "GORUN_JOB_KEY").Value)
	assert.Equal(t, "10.0.0.2", p.Nodes[1].Address)
	for _, r := range p.Ranks {
		assert.Len(t, r.Env, 3+7, "RANK, LOCAL_RANK and ROLE_RANK; the ranks of MPI's dialects")
	}
	assert.Equal(t, "=eth1", p.variable(2, "NCCL_SOCKET_IFNAME").Value)
	assert.Equal(t, "/home/there", p.variable(2, "HOME").Value)
	assert.Equal(t, []string{"MINE"}, p.Withheld)
}

func TestLogsOfHosts(t *testing.T) {
	spec, facts := onHosts(2, 1, 1)
	facts[2].Host = "node2" // two machines with the same host name
	spec.Output.LogDir = "/logs"
	p := planOf(t, spec, facts)
	assert.Equal(t, "/logs/run_01234567", p.Logs.Base)
	assert.Equal(t, "/logs/run_01234567/node1/attempt_0", p.LogsOf(0).Dir)
	assert.True(t, p.ErrorFiles())
	assert.Equal(t, "/logs/run_01234567/node2_2", p.LogsOf(2).Base)

	spec.Output = OutputSpec{Redirect: StreamMap{All: Stdout}, LogsToHead: true}
	p = planOf(t, spec, facts)
	assert.Equal(t, "/tmp/torchelastic_01234567/run_01234567/node2_2/attempt_0", p.LogsOf(2).Dir, "on the head's host")
	assert.True(t, p.ErrorFiles())

	spec.Output = OutputSpec{LogDir: "/dev/null"}
	p = planOf(t, spec, facts)
	assert.False(t, p.LogsOf(2).Files())
	assert.False(t, p.ErrorFiles())
	assert.Equal(t, "", p.variable(3, "TORCHELASTIC_ERROR_FILE").Value, "as torchrun has it")
}

// Hosts without ranks are no nodes.
func TestUnusedHosts(t *testing.T) {
	spec, facts := onHosts(2, 2, 2)
	spec.Apps[0].NumRanks = 2
	p := planOf(t, spec, facts)
	assert.Equal(t, []string{"node2", "node3"}, p.Unused)
	assert.Len(t, p.Nodes, 1)
	assert.Equal(t, "1", p.variable(0, "GROUP_WORLD_SIZE").Value)
	assert.Equal(t, []string{"4 of 6 slots stay idle, all ranks are on node1: did you mean -np 6?"}, p.Notes)

	spec.Apps[0].NumRanks, spec.NumNodes = 0, 2
	p = planOf(t, spec, facts)
	assert.Equal(t, [][]int{{0, 1}, {2, 3}}, p.Supervision().Nodes)
	spec.NumNodes = 4
	_, err := NewPlan(spec, facts, IDs{}, Opened{})
	assert.EqualError(t, err, "--nnodes 4: the job has 3 hosts (-H …)")

	file, err := placement.ParseRankFile("--rankfile f", "rank 0=node3 slot=0\nrank 1=node1 slot=1\n")
	require.NoError(t, err)
	spec, facts = onHosts(2, 2, 2)
	spec.Place.RankFile = file
	for i := range facts {
		facts[i].Machine = twoNodes()
	}
	p = planOf(t, spec, facts)
	assert.Equal(t, []string{"node2"}, p.Unused)
	assert.Equal(t, []int{0, 2}, []int{p.Nodes[0].Fact, p.Nodes[1].Fact})
	assert.Equal(t, "1", p.variable(0, "GROUP_RANK").Value)
	first, err := HostOfRank0(spec, facts)
	require.NoError(t, err)
	assert.Equal(t, 2, first)
}

func TestProgramsOfHosts(t *testing.T) {
	spec, facts := onHosts(1, 1, 1)
	spec.Apps[0].SubstituteLocalRank = true
	facts[1].Programs = []Program{{
		Path: "/opt/trainer", Argv: []string{"/opt/trainer", "${local_rank}"}, ScriptArg: 1,
		Kind: "executable",
	}}
	p := planOf(t, spec, facts)
	assert.Nil(t, p.Nodes[2].Apps)
	assert.Equal(t, "/opt/trainer", p.AppsOf(1)[0].Path)
	assert.Equal(t, "/srv/trainer", p.AppsOf(2)[0].Path)
	assert.Equal(t, []string{"/opt/trainer", "0"}, p.Ranks[1].Argv)

	facts[2].Programs = []Program{{
		Path: "/srv/trainer", Argv: []string{"python3", "trainer"}, ScriptArg: 2,
		Kind: "Python script",
	}}
	_, err := NewPlan(spec, facts, IDs{}, Opened{})
	assert.EqualError(t, err,
		"./trainer is not the same everywhere: executable on node[1-2], Python script on node3; --copy sends this host's")
}

// Nodes that join have the number of ranks of their own command lines.
func TestJoinedNodes(t *testing.T) {
	spec, facts := onHosts(0, 0)
	spec.Hosts, spec.PerNode = nil, Count{Kind: CountFixed, N: 1}
	facts[0].Ranks, facts[1].Ranks, facts[1].Joined = 1, 3, true
	p := planOf(t, spec, facts)
	assert.Equal(t, [][]int{{0}, {1, 2, 3}}, p.Supervision().Nodes)
	assert.Equal(t, "4 ranks: one per slot (from each node's command line)", p.Why)
	assert.Equal(t, "vi", p.variable(3, "EDITOR").Value)
}

// TestCoreSlots: ranks fill hosts whose slots are their cores in order, up to a limit. Idle slots are no mistake
// then, because no option set their number.
func TestCoreSlots(t *testing.T) {
	for name, c := range map[string]struct {
		ranks int
		want  []int
	}{
		"no number": {0, []int{2, 3, 1}}, "few": {1, []int{1, 0, 0}}, "some": {4, []int{2, 2, 0}},
	} {
		spec, facts := onHosts(0, 0, 1)
		spec.Apps[0].NumRanks, spec.Oversubscribe = c.ranks, true
		spec.Hosts[0].CoreSlots, spec.Hosts[1].CoreSlots, spec.Hosts[1].MaxSlots = true, true, 3
		for i, cpus := range []string{"0-1", "0-7", "0-7"} {
			var err error
			facts[i].Machine.CPUs, err = placement.ParseCPUSet(cpus)
			require.NoError(t, err)
		}
		require.True(t, spec.Request().NeedsCPUs())
		require.True(t, spec.Request().NeedsTopology())
		require.False(t, spec.Request().NeedsGPUs())
		spec.CountSlots(facts)
		p := planOf(t, spec, facts)
		got := make([]int, 3)
		for _, n := range p.Nodes {
			got[n.Fact] = len(n.Ranks)
		}
		require.Equal(t, c.want, got, name)
		require.NotContains(t, strings.Join(p.Notes, "\n"), "idle", name)
	}
}
