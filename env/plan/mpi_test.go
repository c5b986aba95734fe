package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mpiJob has one world with all ranks, on one node.
func mpiJob(ranks int, inherited ...string) Inputs {
	in := job(ranks, inherited...)
	in.MPI = MPI{
		Offered: true, Version: "1", FD: "3", URI: "<at start>",
		Worlds: []World{{Name: "gorun-w", Size: ranks, Apps: []int{ranks}}},
	}
	for i := range in.Ranks {
		in.Ranks[i].MPI = InWorld{Rank: i, LocalRank: i, LocalSize: ranks, NodeRank: i, Host: "node1"}
	}
	return in
}

// ofMPI returns the MPI variables of a rank.
func ofMPI(e Environment, rank int) map[string]string {
	found := make(map[string]string)
	for _, v := range e.all(0, rank) {
		if r := ruleFor(v.Name); r != nil && r.MPI {
			found[v.Name] = v.Value
		}
	}
	return found
}

// The MPI variables of a rank. They do not include OMPI_UNIVERSE_SIZE, since mpirun 4 refuses to run in a rank
// that has it.
func TestMPIVariables(t *testing.T) {
	all := map[string]string{
		"GORUN_JOB_WORLD": "1/2", "GFORTRAN_UNBUFFERED_PRECONNECTED": "y", "UCX_DEBUG_SIGNO": "0",
		"MPIR_CVAR_PMI_VERSION": "1",
		"PMI_FD":                "3", "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2",
		"PMIX_NAMESPACE": "gorun-w", "PMIX_RANK": "1", "PMIX_SERVER_URI3": "<at start>", "PMIX_SECURITY_MODE": "native",
		"PMIX_BFROP_BUFFER_TYPE": "PMIX_BFROP_BUFFER_NON_DESC", "PMIX_GDS_MODULE": "hash", "PMIX_VERSION": "4.2.2",
		"PMIX_HOSTNAME":                  "node1",
		"OMPI_MCA_orte_local_daemon_uri": "1.0;tcp://127.0.0.1:1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
		"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_NODE_RANK": "1",
		"OMPI_NUM_APP_CTX": "1", "OMPI_APP_CTX_NUM_PROCS": "2", "OMPI_FIRST_RANKS": "0",
	}
	assert.Equal(t, all, ofMPI(build(t, mpiJob(2)), 1))

	in := mpiJob(2)
	in.MPI.FD, in.MPI.Port, in.Ranks[1].MPI.Job = "", "<at start>", 5
	delete(all, "PMI_FD")
	all["PMI_PORT"], all["PMI_ID"] = "<at start>", "5"
	assert.Equal(t, all, ofMPI(build(t, in), 1), "--pmi-port")

	assert.Empty(t, ofMPI(build(t, job(2)), 1), "no dialect")
}

// gorun replaces the outer launcher's variables, or removes them if ranks get none. It keeps the user's
// settings.
func TestMPIVariablesOfOuterLaunchers(t *testing.T) {
	inherited := []string{
		"PMI_RANK=7", "PMI_SIZE=9", "PMI_SPAWNED=1", "PMI_ID=7", "PMI_PORT=a:1", "PMIX_NAMESPACE=other",
		"PMIX_SERVER_URI41=x", "PMIX_SYSTEM_TMPDIR=/tmp", "PMIX_DSTORE_21_BASE_PATH=/x",
		"PMIX_SERVER_TMPDIR=/tmp", "PMIX_SERVER_RANK=1", "PMIX_KEEPALIVE_PIPE=9", "PMIX_LAUNCHER_RNDZ_URI=x",
		"OMPI_COMM_WORLD_RANK=7", "OMPI_UNIVERSE_SIZE=9", "OMPI_MCA_ess=^singleton", "OMPI_MCA_pmix=^s1",
		"OMPI_MCA_orte_local_daemon_uri=0.0;tcp://10.0.0.1:5",
		"OMPI_MCA_orte_precondition_transports=1-2", "OMPI_VERSION=5.0.11", "PRTE_LAUNCHED=1", "HYDI_CONTROL_FD=7",
		"I_MPI_PIN_MAPPING=1:0 0", "I_MPI_INFO_NP=1", "HYDRA_BSTRAP_PGID=0", "GORUN_JOB_WORLD=7/9",
	}
	settings := []string{
		"MPIR_CVAR_PMI_VERSION=x", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_orte_base_help_aggregate=0",
		"PMIX_MCA_psec=native", "PMIX_DEBUG=1", "PMIX_OF_THE_PROGRAM=1",
		"I_MPI_PIN=0", "UCX_DEBUG_SIGNO=SIGUSR2", "GFORTRAN_UNBUFFERED_PRECONNECTED=n",
	}
	e := build(t, mpiJob(2, append(inherited, settings...)...))
	got := make(map[string]string)
	for _, v := range e.all(0, 1) {
		got[v.Name] = v.Value
	}
	for _, entry := range inherited {
		name, value, _ := strings.Cut(entry, "=")
		assert.NotEqual(t, value, got[name], name)
	}
	for _, gone := range []string{
		"PMI_SPAWNED", "PMI_ID", "PMIX_SERVER_URI41", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess",
		"I_MPI_INFO_NP",
	} {
		assert.NotContains(t, got, gone)
	}
	for _, entry := range settings {
		name, value, _ := strings.Cut(entry, "=")
		assert.Equal(t, value, got[name], name)
	}

	e = build(t, job(2, inherited...))
	require.Len(t, e.Removed, len(inherited)) // --mpi=none
	for _, entry := range inherited {
		name, _, _ := strings.Cut(entry, "=")
		_, has := e.of(1, name)
		assert.False(t, has, name)
	}
}

// If each program has a world, MPI's numbers count in it, but RANK and WORLD_SIZE count in the job.
func TestWorldsOfTheirOwn(t *testing.T) {
	in := mpiJob(3)
	in.MPI.Worlds = []World{{Name: "a", Size: 1, Apps: []int{1}}, {Name: "b", Size: 2, Apps: []int{2}, Spawned: true}}
	for i := range in.Ranks[1:] {
		in.Ranks[1+i].MPI = InWorld{World: 1, Rank: i, LocalRank: i, LocalSize: 2, NodeRank: 1 + i, Host: "node1"}
	}
	e := build(t, in)
	for name, value := range map[string]string{
		"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "2", "PMI_RANK": "1", "PMI_SIZE": "2", "PMIX_RANK": "1",
		"PMIX_NAMESPACE": "b", "MPI_LOCALRANKID": "1",
		"MPI_LOCALNRANKS": "2", "OMPI_COMM_WORLD_NODE_RANK": "2", "GORUN_JOB_WORLD": "1/2", "PMI_SPAWNED": "1",
	} {
		v, _ := e.of(2, name)
		assert.Equal(t, value, v.Value, name)
	}
	_, has := e.of(0, "PMI_SPAWNED")
	assert.False(t, has)
	in.Ranks[0].MPI.World = 2
	_, err := Build(in)
	require.Error(t, err)
}

// Ranks of all programs in a world are numbered consecutively.
func TestAppsOfAWorld(t *testing.T) {
	in := mpiJob(6)
	in.MPI.Worlds[0].Apps = []int{1, 2, 3}
	got := ofMPI(build(t, in), 5)
	assert.Equal(t, []string{"3", "1 2 3", "0 1 3"}, []string{
		got["OMPI_NUM_APP_CTX"], got["OMPI_APP_CTX_NUM_PROCS"],
		got["OMPI_FIRST_RANKS"],
	})
}

// With several hosts, MPICH's ranks publish the address at which others reach them, unless the user sets
// another.
func TestReachableAddresses(t *testing.T) {
	in := mpiJob(2)
	in.Nodes = []Node{{Endpoint: Endpoint{Address: "10.0.0.1"}}, {Endpoint: Endpoint{Address: "10.0.0.2"}, Remote: true}}
	in.Ranks[1].Node = 1
	e := build(t, in)
	_, has := e.find(1, 1, "PMI_HOSTNAME")
	assert.False(t, has, "two nodes on one host")

	in.MPI.SeveralHosts = true
	e = build(t, in)
	for _, name := range []string{"PMI_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"} {
		v, _ := e.find(1, 1, name)
		assert.Equal(t, "10.0.0.2", v.Value, name)
	}
	in.Exports = []Export{{Name: "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", Value: "fast", HasValue: true}}
	e = build(t, in)
	v, _ := e.find(1, 1, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME")
	assert.Equal(t, "fast", v.Value)
}

// If a node has more ranks than CPUs, waiting ranks yield, unless the user sets otherwise.
func TestCrowdedRanksGiveWay(t *testing.T) {
	in := mpiJob(2)
	in.Nodes[0].Crowded = true
	got := ofMPI(build(t, in), 1)
	assert.Equal(t, []string{"1", "3"}, []string{got["OMPI_MCA_mpi_yield_when_idle"], got["I_MPI_THREAD_YIELD"]})
	in.Inherited = append(in.Inherited, "OMPI_MCA_mpi_yield_when_idle=0", "I_MPI_THREAD_YIELD=2")
	got = ofMPI(build(t, in), 1)
	assert.Equal(t, []string{"0", "2"}, []string{got["OMPI_MCA_mpi_yield_when_idle"], got["I_MPI_THREAD_YIELD"]})
}
