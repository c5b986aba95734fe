package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// allocation is a job of Slurm's.
var allocation = []string{"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_TASKS_PER_NODE=2(x4)"}

func namesOf(list []hosts.Host) (names []string) {
	for _, h := range list {
		names = append(names, h.Name)
	}
	return names
}

func TestHostsCheck(t *testing.T) {
	o := mustBe[*hostsOptions](t, "gorun hosts check -H node[1-2],here --ssh-config f --exclude node1 --json ./x a")
	require.Equal(t, []string{"node2", "here"}, namesOf(o.Spec.Hosts))
	require.Equal(t, "f", o.Spec.Reach.SSHConfig)
	require.Equal(t, []job.App{{Program: "./x", Args: []string{"a"}}}, o.Spec.Apps)
	require.True(t, o.JSON)
	require.Nil(t, mustBe[*hostsOptions](t, "gorun hosts check -H a").Spec.Apps)
	require.True(t, mustBe[*hostsOptions](t, "gorun hosts --help").IsHelp())
	for line, want := range map[string]string{
		"gorun hosts": "gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a " +
			"program of that name",
		"gorun hosts list": "gorun hosts has one command: gorun hosts check -H HOST,...; gorun ./hosts starts a " +
			"program of that name",
		"gorun hosts check": "no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE",
		"gorun hosts check -n 3 ": "unknown option -n: gorun has it, gorun hosts does not; call gorun for it\n" +
			"no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE",
	} {
		_, err := parsed[*hostsOptions](line)
		require.EqualError(t, err, want)
	}
	require.Equal(t, []string{"n1", "n2", "n3", "n4"},
		namesOf(mustBe[*hostsOptions](t, "gorun hosts check", allocation...).Spec.Hosts))
	require.Equal(t, []string{"n3"},
		namesOf(mustBe[*hostsOptions](t, "gorun hosts check -H n3", allocation...).Spec.Hosts))
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
