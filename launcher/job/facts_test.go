package job

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/placement"
)

// A host with wrong facts gets no job; it neither crashes the launcher nor fills its memory.
func TestFactsOfHostileHosts(t *testing.T) {
	for want, lie := range map[string]func(*Facts){
		"its agent reports 0 programs, the job has 1": func(f *Facts) { f.Programs = nil },
		"its agent reports 2 programs, the job has 1": func(f *Facts) { f.Programs = make([]Program, 2) },

		"the arguments of program 0 begin at word 9 of 1":  func(f *Facts) { f.Programs[0].ScriptArg = 9 },
		"the arguments of program 0 begin at word -1 of 1": func(f *Facts) { f.Programs[0].ScriptArg = -1 },

		"program 0 has no command line": func(f *Facts) { f.Programs[0].Argv, f.Programs[0].ScriptArg = nil, 0 },
		"program 0 assigns port 65536":  func(f *Facts) { f.Programs[0].Port = 1 << 16 },

		"NUMA node 35184372088832 is not a number below": func(f *Facts) { f.Machine.Topology.Nodes[1].ID = 1 << 45 },
		"NUMA node -1 is not a number below 65536":       func(f *Facts) { f.Machine.Topology.Nodes[1].ID = -1 },
		"CPU -3 is not a CPU number below 65536":         func(f *Facts) { f.Machine.Topology.CPUs[3].ID = -3 },

		"its role has 4097 bytes, or a null byte: at most 4096 are taken": func(f *Facts) {
			f.Role = strings.Repeat("r", maxRole+1)
		},
		"its role has 2 bytes, or a null byte": func(f *Facts) { f.Role = "r\x00" },

		"its command line asks for 9223372036854775807 ranks: a": func(f *Facts) { f.Ranks = math.MaxInt },
		"its command line asks for -9223372036854775808 ranks":   func(f *Facts) { f.Ranks = math.MinInt },
	} {
		spec, facts := onHosts(1, 1)
		spec.Apps[0].LocalRankFlag = true
		for i := range facts {
			facts[i].Machine, facts[i].Ranks = twoNodes(), 1
			facts[i].Machine.Topology.Nodes[1].Memory = 1 << 30
		}
		lie(&facts[1])
		_, err := NewPlan(spec, facts, IDs{}, Opened{})
		require.ErrorContains(t, err, "take facts of node2: "+want)
	}
}

// With a rank file, the layout is needed before the plan.
func TestHostOfRank0OfHostileHosts(t *testing.T) {
	spec, facts := onHosts(1, 1)
	file, err := placement.ParseRankFile("file", "rank 0=node2 slot=0")
	require.NoError(t, err)
	spec.Place.RankFile = file
	facts[1].Machine = twoNodes()
	facts[1].Machine.Topology.Nodes[0].ID = math.MaxInt
	_, err = HostOfRank0(spec, facts)
	require.ErrorContains(t, err, "take facts of node2: NUMA node")
}

// A task reports how many ranks are on its host, each with log files.
func TestFactsOfHostileTasks(t *testing.T) {
	spec, facts := taskJob([]string{"", "", ""}, "0", "0", "0")
	facts[2].Task.LocalRanks = math.MaxInt
	spec.Output.LogDir = t.TempDir()
	_, err := NewPlan(spec, facts, IDs{}, Opened{})
	require.ErrorContains(t, err, "rank 2 is local rank 0 of 9223372036854775807: the job has 3 ranks")
}

// Only hosts that run a program build it, because other hosts may not have its source.
func TestProgramsAreBuiltWhereTheyRun(t *testing.T) {
	spec, facts := appsOn(1, 1, 1, 1)
	spec.Apps[0].Hosts, spec.Apps[1].Hosts = spec.Hosts[:1], spec.Hosts[1:]
	facts[0].Programs[1] = Program{Error: "no such file"}
	facts[1].Programs[1] = Program{Path: "", Argv: []string{"./b.go"}, ScriptArg: 1, Kind: "Go source", Build: true}
	p := planOf(t, spec, facts)
	require.Equal(t, []int{0}, p.Nodes[0].Ranks)
	require.False(t, p.AppsOf(0)[1].Build)
	require.True(t, p.AppsOf(1)[1].Build)
}
