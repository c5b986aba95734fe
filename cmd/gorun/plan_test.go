package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/env/plan"
	"gorun/launcher/job"
	"gorun/placement"
)

// tableOf returns the table of ranks that --dry-run prints for an example machine.
func tableOf(t *testing.T, example string, place job.PlacementSpec, ranks int) (table string, p *job.Plan) {
	t.Helper()
	m, err := placement.Example(example)
	require.NoError(t, err)
	spec := job.Spec{Apps: []job.App{{Program: "app", NumRanks: ranks}}, Place: place}
	facts := job.Facts{
		Facts: job.NodeFacts{Host: "node", Machine: m, Programs: []job.Program{{
			Path: "/bin/app",
			Argv: []string{"app"}, ScriptArg: 1,
		}}, TempDir: "/tmp"},
	}
	p, err = job.NewPlan(&spec, []job.Facts{facts}, job.IDs{
		Job: job.AtStart, Run: job.AtStart, Dir: job.AtStart,
		World: job.AtStart,
	}, job.Opened{Addr: "127.0.0.1"})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, writePlan(&out, p, &dialect.Invocation{}))
	_, table, _ = strings.Cut(out.String(), "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	return table + "\n", p
}

func TestPlanOfOneRank(t *testing.T) {
	table, _ := tableOf(t, "dgx-h100", job.PlacementSpec{}, 1)
	assert.Equal(t, `RANK  HOST  GPU  CPUS   PLACEMENT
0     node  0    0-223  not bound: the only rank of its node
`, table)
}

func TestPlanOfEightRanks(t *testing.T) {
	table, p := tableOf(t, "dgx-h100", job.PlacementSpec{Memory: job.MemoryBind}, 8)
	assert.Equal(t, `RANK  HOST  GPU  CPUS            MEMORY  PLACEMENT
0     node  0    0-13,112-125    bind 0  14 cores of NUMA node 0, near GPU 0
1     node  1    14-27,126-139   bind 0  14 cores of NUMA node 0, near GPU 1
2     node  2    28-41,140-153   bind 0  14 cores of NUMA node 0, near GPU 2
3     node  3    42-55,154-167   bind 0  14 cores of NUMA node 0, near GPU 3
4     node  4    56-69,168-181   bind 1  14 cores of NUMA node 1, near GPU 4
5     node  5    70-83,182-195   bind 1  14 cores of NUMA node 1, near GPU 5
6     node  6    84-97,196-209   bind 1  14 cores of NUMA node 1, near GPU 6
7     node  7    98-111,210-223  bind 1  14 cores of NUMA node 1, near GPU 7
`, table)
	var out bytes.Buffer
	require.NoError(t, writePlan(&out, p, &dialect.Invocation{JSON: true}))
	var read struct{ Ranks []map[string]any }
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	for key, want := range map[string]string{
		"visible_gpus": "7", "cpus": "98-111,210-223", "memory_nodes": "1",
		"memory_policy": "bind", "reason": "14 cores of NUMA node 1, near GPU 7",
	} {
		assert.Equal(t, want, read.Ranks[7][key], key)
	}
}

// Many ranks with the same placement share a row.
func TestPlanOfManyRanks(t *testing.T) {
	none, err := placement.ParseBindTo("none")
	require.NoError(t, err)
	table, _ := tableOf(t, "two-socket-intel", job.PlacementSpec{Request: placement.Request{BindTo: none}}, 64)
	assert.Equal(t, `RANK  HOST  CPUS   PLACEMENT
0-63  node  0-127  not bound: --bind-to none
`, table)
	table, _ = tableOf(t, "two-socket-intel", job.PlacementSpec{}, 64)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	require.Len(t, lines, 65)
	assert.Equal(t, "63    node  63,127  preferred 1  1 core of NUMA node 1", lines[64])
}

// A rank may lack variables of rank 0.
func TestPlanOfRanksWithDifferentVariables(t *testing.T) {
	spec := job.Spec{Apps: []job.App{{Program: "a", NumRanks: 1, Dir: "/tmp"}, {Program: "b", NumRanks: 1}}}
	programs := []job.Program{
		{Path: "/bin/a", Argv: []string{"a"}, ScriptArg: 1},
		{Path: "/bin/b", Argv: []string{"b"}, ScriptArg: 1},
	}
	for range 2 {
		p, err := job.NewPlan(&spec, []job.Facts{{Facts: job.NodeFacts{
			Host: "node", Programs: programs,
			TempDir: "/tmp",
		}}}, job.IDs{},
			job.Opened{})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, writePlan(&out, p, &dialect.Invocation{Verbose: 1}))
		assert.Regexp(t, `(?m)^PWD +(/tmp -|- /tmp) `, out.String())
		assert.Regexp(t, `(?m)^RANK +HOST .* PROGRAM$`, out.String())
		spec.Apps[0].Dir, spec.Apps[1].Dir = spec.Apps[1].Dir, spec.Apps[0].Dir
	}
}

// hostsTable returns the table of ranks that --dry-run prints for eight ranks on each host.
func hostsTable(t *testing.T, hosts int, place job.PlacementSpec, last string) string {
	t.Helper()
	m, err := placement.Example(last)
	require.NoError(t, err)
	var facts []job.Facts
	for i := range hosts {
		facts = append(facts, job.Facts{
			Facts: job.NodeFacts{
				Host: fmt.Sprint("node", i+1), Machine: m,
				Programs: []job.Program{{Path: "/bin/app", Argv: []string{"app"}, ScriptArg: 1, Kind: "executable"}},
				TempDir:  "/tmp", Environ: []string{"HOME=/home/there"},
			},
			Remote:   i > 0,
			Endpoint: plan.Endpoint{Interface: fmt.Sprint("eth", i)},
		})
	}
	facts[hosts-1].Programs = []job.Program{{
		Path: "/opt/app", Argv: []string{"/opt/app"}, ScriptArg: 1,
		Kind: "executable",
	}}
	spec := job.Spec{
		Apps: []job.App{{Program: "app"}}, PerNode: job.Count{Kind: job.CountFixed, N: 8}, Place: place,
		Environ: []string{"PATH=/bin", "HOME=/home/here", "WANDB_API_KEY=1234", "MINE=1"},
	}
	p, err := job.NewPlan(&spec, facts, job.IDs{
		Job: job.AtStart, Run: job.AtStart, Dir: job.AtStart,
		World: job.AtStart,
	}, job.Opened{Addr: "10.0.0.1"})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, writePlan(&out, p, &dialect.Invocation{Verbose: 1}))
	return out.String()
}

// Hosts with the same placement share rows.
func TestPlanOfHosts(t *testing.T) {
	text := hostsTable(t, 4, job.PlacementSpec{}, "dgx-h100")
	assert.Regexp(t, `(?m)^command +/opt/app \(on node4\)$`, text)
	assert.Regexp(t, `(?m)^0,8,16 +node\[1-3\] +0 +0 +0-13,112-125 .* app$`, text)
	assert.Regexp(t, `(?m)^31 +node4 +7 +7 +98-111,210-223 .* /opt/app$`, text)
	assert.Regexp(t, `(?m)^NCCL_SOCKET_IFNAME +node1:=eth0 node2:=eth1 node3:=eth2 node4:=eth3 `, text)
	assert.Contains(t, text, "2 inherited variables for this host only")
	none, err := placement.ParseBindTo("none")
	require.NoError(t, err)
	text = hostsTable(t, 4, job.PlacementSpec{Request: placement.Request{BindTo: none}}, "two-socket-intel")
	assert.Regexp(t, `(?m)^0-23 +node\[1-3\] +0-7 +0-127 .* app$`, text)
}
