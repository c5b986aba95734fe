package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// job has ranks on one node, as with `gorun -np N`.
func job(ranks int, inherited ...string) Inputs {
	in := Inputs{
		Inherited: inherited, Job: "7f3a", RunID: "run", Store: Store{Addr: "127.0.0.1", Port: "41873", Own: "127.0.0." +
			"1:41873"},
		RASAddr: "localhost:24001",
		Nodes:   []Node{{Threads: 2, Why: "8 CPUs ÷ 4 ranks"}},
	}
	for local := range ranks {
		in.Ranks = append(in.Ranks, Rank{LocalRank: local, ErrorFile: fmt.Sprintf("/tmp/gorun-x/error.%d.json", local)})
	}
	return in
}

func build(t *testing.T, in Inputs) Environment {
	t.Helper()
	e, err := Build(in)
	require.NoError(t, err)
	require.Len(t, e.Ranks, len(in.Ranks))
	for rank := range e.Ranks {
		seen := map[string]bool{}
		for _, v := range e.all(in.Ranks[rank].Node, rank) {
			assert.Falsef(t, seen[v.Name], "rank %d has %s twice", rank, v.Name)
			assert.NotEmptyf(t, v.Reason, "%s has no reason", v.Name)
			assert.NotEmptyf(t, v.Origin, "%s has no origin", v.Name)
			seen[v.Name] = true
		}
	}
	return e
}

// all returns all variables of a rank.
func (e Environment) all(node, rank int) []Variable {
	list := slices.Clone(e.Common)
	if e.Nodes != nil {
		list = append(list, e.Nodes[node]...)
	}
	return append(list, e.Ranks[rank]...)
}

// of returns a variable of a rank, in a job on one node.
func (e Environment) of(rank int, name string) (Variable, bool) { return e.find(0, rank, name) }

func (e Environment) find(node, rank int, name string) (Variable, bool) {
	list := e.all(node, rank)
	if i := slices.IndexFunc(list, func(v Variable) bool { return v.Name == name }); i >= 0 {
		return list[i], true
	}
	return Variable{}, false
}

func value(t *testing.T, e Environment, rank int, name string) string {
	t.Helper()
	v, ok := e.of(rank, name)
	require.True(t, ok, "rank %d has no %s", rank, name)
	return v.Value
}

func (e Environment) removed(name string) string {
	for _, r := range e.Removed {
		if r.Name == name {
			return r.Reason
		}
	}
	return ""
}

// The variables of a torchrun 2.15 worker that inherits only PATH and HOME: `env -i PATH=… HOME=… torchrun
// --nproc-per-node 2 --no-python env`.
var torchrunNames = []string{
	"GROUP_RANK", "GROUP_WORLD_SIZE", "LC_CTYPE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"OMP_NUM_THREADS",
	"RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_MAX_RESTARTS",
	"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_USE_AGENT_STORE",
	"TORCH_NCCL_ASYNC_ERROR_HANDLING", "WORLD_SIZE",
}

func TestNamesDifferFromTorchrunOnlyAsListed(t *testing.T) {
	e := build(t, job(2))
	ours := map[string]bool{}
	for _, v := range slices.Concat(e.Common, e.Ranks[1]) {
		ours[v.Name] = true
	}
	listed := map[string]bool{}
	for _, d := range DifferencesFromTorchrun() {
		listed[d.Name] = true
	}
	for _, name := range torchrunNames {
		assert.True(t, ours[name] || listed[name], "torchrun sets %s, gorun does not, and the list does not say so", name)
		delete(ours, name)
	}
	for name := range ours {
		assert.True(t, listed[name], "gorun sets %s, torchrun does not, and the list does not say so", name)
	}
}

func TestContract(t *testing.T) {
	in := job(3, "HOME=/home/u")
	in.Role, in.Restarts, in.MaxRestarts = "trainer", 1, 3
	e := build(t, in)
	want := map[string]string{
		"HOME": "/home/u",
		"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "GROUP_RANK": "0",
		"GROUP_WORLD_SIZE": "1",
		"ROLE_NAME":        "trainer", "ROLE_RANK": "2", "ROLE_WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
		"MASTER_PORT":         "41873",
		"TORCHELASTIC_RUN_ID": "run", "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3",
		"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_ERROR_FILE": "/tmp/gorun-x/error.2.json",
		"TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
		"GORUN_JOB":                      "7f3a", "GORUN_JOB_STORE": "127.0.0.1:41873",
		"OMP_NUM_THREADS": "2", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "PYTHONUNBUFFERED": "1",
		"PYTHONFAULTHANDLER": "1",
		"NCCL_DEBUG":         "WARN", "NCCL_RAS_ADDR": "localhost:24001", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
	}
	got := map[string]string{}
	for _, v := range slices.Concat(e.Common, e.Ranks[2]) {
		got[v.Name] = v.Value
	}
	assert.Equal(t, want, got)
	assert.Equal(t,
		[]string{"RANK=2", "LOCAL_RANK=2", "ROLE_RANK=2", "TORCHELASTIC_ERROR_FILE=/tmp/gorun-x/error.2.json"},
		Entries(e.Ranks[2]),
		"a row has only what differs")
	omp, _ := e.of(0, "OMP_NUM_THREADS")
	assert.Equal(t, Variable{Name: "OMP_NUM_THREADS", Value: "2", Origin: Gorun, Reason: "8 CPUs ÷ 4 ranks"}, omp)
	home, _ := e.of(0, "HOME")
	assert.Equal(t, Variable{Name: "HOME", Value: "/home/u", Origin: Inherited, Reason: "yours"}, home)
}

func TestOneRankHasNothingOfItsOwn(t *testing.T) {
	e := build(t, job(1))
	assert.Empty(t, e.Ranks[0])
	assert.Equal(t, "0", value(t, e, 0, "RANK"))
}

func TestStoreAtRank0(t *testing.T) {
	in := job(2, "TORCHELASTIC_RUN_ID=outer", "TORCHELASTIC_ENABLE_FILE_TIMER=1")
	in.Store.Mode, in.Store.Port = StoreRank0, "12355"
	e := build(t, in)
	for _, v := range slices.Concat(e.Common, e.Ranks[0], e.Ranks[1]) {
		assert.NotContains(t, v.Name, "TORCHELASTIC_")
	}
	port, _ := e.of(1, "MASTER_PORT")
	assert.Equal(t, Variable{
		Name: "MASTER_PORT", Value: "12355", Origin: Gorun,
		Reason: "kept free for rank 0, which serves the store",
	}, port)
	assert.Equal(t, "127.0.0.1:41873", value(t, e, 1, "GORUN_JOB_STORE"))

	// Ranks of a restarted job get the number of the attempt in every store mode.
	in.Restarts, in.MaxRestarts = 1, 3
	e = build(t, in)
	assert.Equal(t, "1", value(t, e, 1, "TORCHELASTIC_RESTART_COUNT"))
	assert.Equal(t, "3", value(t, e, 1, "TORCHELASTIC_MAX_RESTARTS"))
	_, set := e.of(1, "TORCHELASTIC_USE_AGENT_STORE")
	assert.False(t, set)
}

func TestNodes(t *testing.T) {
	in := job(0)
	in.Nodes = []Node{{Threads: 4, Why: "8 CPUs ÷ 2 ranks"}, {Threads: 2, Why: "2 CPUs ÷ 1 rank"}}
	in.Ranks = []Rank{{Node: 0, LocalRank: 0}, {Node: 0, LocalRank: 1}, {Node: 1, LocalRank: 0}}
	e := build(t, in)
	for rank, want := range [][5]string{{"0", "2", "0", "2", "4"}, {"1", "2", "0", "2", "4"}, {"0", "1", "1", "2", "2"}} {
		for i, name := range []string{"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "OMP_NUM_THREADS"} {
			v, _ := e.find(in.Ranks[rank].Node, rank, name)
			assert.Equal(t, want[i], v.Value, "rank %d, %s", rank, name)
		}
	}
	omp, _ := e.of(0, "OMP_NUM_THREADS")
	assert.Equal(t, "this node's usable CPUs ÷ its ranks", omp.Reason)
}

func TestUnknownThreadsAreNotSet(t *testing.T) {
	in := job(2)
	in.Nodes[0] = Node{}
	_, set := build(t, in).of(0, "OMP_NUM_THREADS")
	assert.False(t, set)
}

func TestSettingsOfTheUserWin(t *testing.T) {
	// An empty value counts: it turns off PYTHONUNBUFFERED.
	e := build(t, job(2, "OMP_NUM_THREADS=7", "PYTHONUNBUFFERED=", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3",
		"NCCL_IB_HCA=mlx5_0", "CUDA_VISIBLE_DEVICES=1"))
	for name, want := range map[string]string{
		"OMP_NUM_THREADS": "7", "PYTHONUNBUFFERED": "", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "NCCL_IB_HCA": "mlx5_0",
		"CUDA_VISIBLE_DEVICES": "1",
	} {
		v, ok := e.of(1, name)
		require.True(t, ok, name)
		assert.Equal(t, Variable{Name: name, Value: want, Origin: Inherited, Reason: "yours"}, v)
	}
	assert.Empty(t, e.Removed)
}

func TestIdentitiesOfOthersAreRemoved(t *testing.T) {
	inherited := []string{
		"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=0", "ROLE_NAME=x",
		"TORCHELASTIC_UNKNOWN=/x",
		"PMI_RANK=0", "PMI_SIZE=1", "PMI_FD=6", "PMIX_RANK=0", "PMIX_NAMESPACE=1", "PMIX_SERVER_URI41=x",
		"MPI_LOCALRANKID=0", "HYDI_CONTROL_FD=7",
		"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_NODE_RANK=0", "OMPI_UNIVERSE_SIZE=2", "OMPI_MCA_orte_hnp_uri=x",
		"OMPI_MCA_ess_base_vpid=1",
		"PRTE_LAUNCHED=1", "MV2_COMM_WORLD_RANK=0", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=4",
		"SLURM_STEP_ID=0", "FLUX_TASK_RANK=0", "JSM_NAMESPACE_RANK=0",
	}
	kept := []string{
		"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1", "SLURM_CONF=/c", "SLURM_MPI_TYPE=pmi2", "OMPI_MCA_btl=tcp,self",
		"PMIX_MCA_gds=hash", "PMI_DEBUG=1",
		"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=5", "TORCHELASTIC_TIMER_FILE=/x", "TORCHELASTIC_HEALTH_CHECK_PORT=8080",
		"PET_NNODES=1", "MPIR_CVAR_PMI_VERSION=1", "RANKS=3", "NODE_RANK=0", "HYDRA_IFACE=eth0",
	}
	e := build(t, job(2, append(slices.Clone(kept), inherited...)...))
	for _, entry := range kept {
		name, want, _ := strings.Cut(entry, "=")
		assert.Equal(t, want, value(t, e, 1, name))
		assert.Empty(t, e.removed(name))
	}
	assert.Len(t, e.Removed, len(inherited))
	for _, entry := range inherited {
		name, _, _ := strings.Cut(entry, "=")
		assert.NotEmpty(t, e.removed(name), name)
		if v, ok := e.of(1, name); ok {
			assert.Equal(t, Gorun, v.Origin, name)
		}
	}
	assert.Equal(t, "an outer launcher's; every rank gets its own", e.removed("RANK"))
}

func TestLaunchersOwnVariablesDoNotReachRanks(t *testing.T) {
	e := build(t, job(1, "GORUN_NP=4", "GORUN_GRACE=3s", "GORUN_TOKEN=secret", "GORUN_PYTHON=/opt/python"))
	for _, name := range []string{"GORUN_NP", "GORUN_GRACE", "GORUN_TOKEN"} {
		_, ok := e.of(0, name)
		assert.False(t, ok, name)
		assert.NotEmpty(t, e.removed(name), name)
	}
	assert.Equal(t, "/opt/python", value(t, e, 0, "GORUN_PYTHON"))
	for _, v := range e.Common {
		assert.NotContains(t, v.Value, "secret")
	}
}

func TestJobInsideAJob(t *testing.T) {
	e := build(t, job(1, "GORUN_JOB=aa:bb", "GORUN_JOB_STORE=127.0.0.1:9", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=9"))
	assert.Equal(t, "aa:bb:7f3a", value(t, e, 0, "GORUN_JOB"))
	assert.Equal(t, "127.0.0.1:41873", value(t, e, 0, "GORUN_JOB_STORE"))
	assert.Equal(t, "41873", value(t, e, 0, "MASTER_PORT"))
	assert.Equal(t, "an outer launcher's store", e.removed("MASTER_PORT"))

	// In the same resource manager job the marker is inherited. In another one, the job is not nested.
	for engine, want := range map[string]string{"slurm:7": "aa:7f3a", "slurm:6": "7f3a", "": "7f3a"} {
		e = build(t, job(1, "GORUN_JOB=aa", "GORUN_JOB_ENGINE="+engine, "SLURM_JOB_ID=7", "MASTER_PORT=9"))
		assert.Equal(t, want, value(t, e, 0, "GORUN_JOB"))
		assert.Equal(t, "slurm:7", value(t, e, 0, "GORUN_JOB_ENGINE"))
		assert.Equal(t, "an outer launcher's store", e.removed("MASTER_PORT"))
	}
	_, found := build(t, job(1, "GORUN_JOB=aa", "GORUN_JOB_ENGINE=slurm:6")).of(0, "GORUN_JOB_ENGINE")
	assert.False(t, found)

	// A satisfied request does not count as a removal.
	e = build(t, job(1, "MASTER_PORT=41873"))
	assert.Empty(t, e.Removed)
	assert.Equal(t, "41873", value(t, e, 0, "MASTER_PORT"))
}

func TestVirtualLocalRank(t *testing.T) {
	in := job(2, "HIP_VISIBLE_DEVICES=4,5", "CUDA_VISIBLE_DEVICES=6,7")
	in.VirtualLocalRank = true
	in.Ranks[0].Device, in.Ranks[1].Device = "4", "5"
	e := build(t, in)
	assert.Equal(t, "0", value(t, e, 1, "LOCAL_RANK"))
	assert.Equal(t, "1", value(t, e, 1, "RANK"))
	assert.Equal(t, "5", value(t, e, 1, "CUDA_VISIBLE_DEVICES"))
	assert.Equal(t, "5", value(t, e, 1, "HIP_VISIBLE_DEVICES"))

	in.Inherited = nil
	e = build(t, in)
	assert.Equal(t, "4", value(t, e, 0, "CUDA_VISIBLE_DEVICES"))
	_, ok := e.of(0, "HIP_VISIBLE_DEVICES")
	assert.False(t, ok)
}

func TestIsolatedGPUs(t *testing.T) {
	in := job(2, "CUDA_VISIBLE_DEVICES=6,7", "CUDA_DEVICE_ORDER=FASTEST_FIRST")
	in.Isolated, in.VisibleWhy = true, "the rank's own GPUs"
	in.Ranks[0].Visible = map[string]string{"CUDA_VISIBLE_DEVICES": "6", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
	in.Ranks[1].Visible = map[string]string{"CUDA_VISIBLE_DEVICES": "7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
	e := build(t, in)
	for rank, want := range []string{"6", "7"} {
		v, _ := e.of(rank, "CUDA_VISIBLE_DEVICES")
		assert.Equal(t, Variable{Name: "CUDA_VISIBLE_DEVICES", Value: want, Origin: Gorun, Reason: "the rank's own GPUs"}, v)
		v, _ = e.of(rank, "LOCAL_RANK")
		assert.Equal(t, Variable{
			Name: "LOCAL_RANK", Value: strconv.Itoa(rank), Origin: Gorun,
			Reason: "number of the rank on its node; its GPU is device 0",
		}, v)
		assert.Equal(t, "PCI_BUS_ID", value(t, e, rank, "CUDA_DEVICE_ORDER"))
	}

	in = job(2, "HIP_VISIBLE_DEVICES=1")
	in.Isolated, in.VisibleWhy = true, "the rank's own GPUs"
	in.Ranks[0].Visible = map[string]string{"ROCR_VISIBLE_DEVICES": "GPU-1", "HIP_VISIBLE_DEVICES": "0"}
	in.Ranks[1].Visible = map[string]string{"ROCR_VISIBLE_DEVICES": "GPU-2", "HIP_VISIBLE_DEVICES": "0"}
	in.VirtualLocalRank = true
	e = build(t, in)
	assert.Equal(t, "GPU-2", value(t, e, 1, "ROCR_VISIBLE_DEVICES"))
	v, _ := e.of(1, "HIP_VISIBLE_DEVICES")
	assert.Equal(t, Variable{
		Name: "HIP_VISIBLE_DEVICES", Value: "0", Origin: Gorun,
		Reason: "counts the GPUs of ROCR_VISIBLE_DEVICES",
	}, v)
	assert.Equal(t, "0", value(t, e, 1, "LOCAL_RANK"))
	_, ok := e.of(1, "CUDA_VISIBLE_DEVICES")
	assert.False(t, ok)
}

func TestWorkingDirectory(t *testing.T) {
	in := job(2, "PWD=/old")
	assert.Equal(t, "/old", value(t, build(t, in), 0, "PWD"))
	in.Ranks[0].Dir, in.Ranks[1].Dir = "/new", "/new"
	assert.Equal(t, "/new", value(t, build(t, in), 1, "PWD"))
	in.Ranks[1].Dir = ""
	e := build(t, in)
	assert.Equal(t, "/new", value(t, e, 0, "PWD"))
	assert.Equal(t, "/old", value(t, e, 1, "PWD"), "the other program stays where gorun is")

	in.Ranks[0].Dir, in.Ranks[1].Dir = "sub", "../x"
	e = build(t, in)
	assert.Equal(t, "/old/sub", value(t, e, 0, "PWD"))
	assert.Equal(t, "/x", value(t, e, 1, "PWD"))
	in.Inherited = nil
	_, ok := build(t, in).of(0, "PWD")
	assert.False(t, ok, "nothing tells where a relative directory is")
}

func TestStrangeEntries(t *testing.T) {
	e := build(t, job(1, "A=1", "novalue", "=x", "A=2", "B=a=b\nc", "BASH_FUNC_f%%=() { :; }"))
	assert.Equal(t, "2", value(t, e, 0, "A"), "of two entries the last counts, as for execve's callers")
	assert.Equal(t, "a=b\nc", value(t, e, 0, "B"))
	assert.Equal(t, "() { :; }", value(t, e, 0, "BASH_FUNC_f%%"))
	assert.Equal(t, "not of the form NAME=VALUE", e.removed("novalue"))
	assert.Equal(t, "not of the form NAME=VALUE", e.removed("=x"))
}

func TestSameInputsSameEnvironment(t *testing.T) {
	in := job(4, "B=1", "A=2", "PMI_RANK=0", "Z=3")
	in.Exports = []Export{{Name: "NEW", Value: "1", HasValue: true}, {Name: "A"}}
	first, err := json.Marshal(build(t, in))
	require.NoError(t, err)
	for range 20 {
		again, err := json.Marshal(build(t, in))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
	var back Environment
	require.NoError(t, json.Unmarshal(first, &back))
	assert.Equal(t, build(t, in), back)
}

func TestContradictoryInputs(t *testing.T) {
	_, err := Build(Inputs{})
	assert.EqualError(t, err, "plan the environment: no ranks")
	_, err = Build(Inputs{Nodes: []Node{{}}, Ranks: []Rank{{}, {Node: 1}}})
	assert.EqualError(t, err, "plan the environment: rank 1 is on node 1 of 1")
}

func BenchmarkBuild256(b *testing.B) {
	in := job(256)
	for i := range 60 {
		in.Inherited = append(in.Inherited, "SOME_VARIABLE_"+strconv.Itoa(i)+"=/usr/local/bin:/usr/bin")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(in); err != nil {
			b.Fatal(err)
		}
	}
}

// Nodes that joined may have their own roles. Ranks are numbered within each role.
func TestRoles(t *testing.T) {
	in := job(4)
	in.Role = "trainer"
	in.Nodes = append(in.Nodes, Node{Role: "reader"}, Node{})
	in.Ranks[1].Node, in.Ranks[2].Node, in.Ranks[3].Node = 1, 2, 2
	e := build(t, in)
	for rank, want := range []string{"0 3 trainer", "0 1 reader", "1 3 trainer", "2 3 trainer"} {
		var got [3]string
		for i, name := range []string{"ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"} {
			v, _ := e.find(in.Ranks[rank].Node, rank, name)
			got[i] = v.Value
		}
		assert.Equal(t, want, strings.Join(got[:], " "), "rank %d", rank)
	}
}
