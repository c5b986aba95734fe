package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// allocation is what salloc -N4 --ntasks-per-node=2 sets.
var allocation = []string{
	"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_NTASKS=8", "SLURM_TASKS_PER_NODE=2(x4)",
}

// hostList are hosts with their slots, as -H has them, and a star behind this one.
func hostList(list []hosts.Host) string {
	var words []string
	for _, h := range list {
		if h.Slots > 0 {
			h.Name += fmt.Sprintf(":%d", h.Slots)
		}
		if h.Here {
			h.Name += "*"
		}
		words = append(words, h.Name)
	}
	return strings.Join(words, " ")
}

func TestHostsCheck(t *testing.T) {
	o := mustBe[*hostsOptions](t, "gorun hosts check -H node[1-2],here --ssh-config f --exclude node1 --json ./x a")
	require.Equal(t, "node2 here*", hostList(o.Spec.Hosts))
	require.Equal(t, "f", o.Spec.Reach.SSHConfig)
	require.Equal(t, []job.App{{Program: "./x", Args: []string{"a"}}}, o.Spec.Apps)
	require.True(t, o.JSON)
	require.Nil(t, mustBe[*hostsOptions](t, "gorun hosts check -H a").Spec.Apps)
	require.True(t, mustBe[*hostsOptions](t, "gorun hosts --help").IsHelp())
	const one = "gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a program of that name"
	const none = "no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE"
	requireProblems(t, map[string][]string{
		"gorun hosts":       {one},
		"gorun hosts list":  {one},
		"gorun hosts check": {none},
		"gorun hosts check -n 3 ": {
			"unknown option -n: gorun has it, gorun hosts does not; call gorun for it", none,
		},
	})
}

// Hosts are a resource manager's where options name none, and agents are started by it.
func TestCommandsInAllocation(t *testing.T) {
	for line, want := range map[string][2]string{
		"gorun hosts check":           {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"gorun hosts check -H n3":     {"n3:2", "--nodes=1 --ntasks=1 --nodelist=n3"},
		"gorun bench allreduce -np 4": {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
	} {
		r, err := read(strings.Fields(line)[1:], aroundOf(allocation...))
		require.NoError(t, err)
		var spec job.Spec
		switch r := r.(type) {
		case *hostsOptions:
			spec = r.Spec
		case *benchOptions:
			spec = r.Spec
		}
		require.Equal(t, want[0], hostList(spec.Hosts), line)
		require.Contains(t, strings.Join(spec.Reach.Engine.Once, " "), want[1], line)
	}
}

func TestTokenAndAgent(t *testing.T) {
	require.Empty(t, mustBe[*tokenOptions](t, "gorun token").file)
	require.Empty(t, mustBe[*wordRequest](t, "gorun agent").word)
	require.Equal(t, "how", mustBe[*wordRequest](t, "gorun agent how").word)
	require.Len(t, problems(t, "gorun token 3"), 1)
	require.Len(t, problems(t, "gorun agent a b"), 1)
}

func TestSavedToken(t *testing.T) {
	o := mustBe[*tokenOptions](t, "gorun token --save", "HOME=/home/me")
	require.Equal(t, "/home/me/.config/gorun/token", o.file)
	require.True(t, o.save)
	require.Equal(t, []string{"--save and --out both say where: keep one"},
		problems(t, "gorun token --save --out f", "HOME=/home/me"))
	require.Equal(t, []string{"--save: neither XDG_CONFIG_HOME nor HOME is set: use --out FILE"},
		problems(t, "gorun token --save"))
}
