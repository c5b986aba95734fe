package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Slurm 22.05 batch script on n1, in a job of three nodes, and a step with gorun as its only task.
var (
	batch = []string{
		"SLURM_JOB_ID=17", "SLURM_JOBID=17", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_NODELIST=n[1-3]", "SLURM_JOB_NUM_NODES=3",
		"SLURM_NNODES=3",
		"SLURM_NTASKS=6", "SLURM_NPROCS=6", "SLURM_NTASKS_PER_NODE=2", "SLURM_TASKS_PER_NODE=2(x3)",
		"SLURM_CONF=/etc/slurm.conf",
		"SLURMD_NODENAME=n1", "SLURM_CPUS_ON_NODE=4", "SLURM_GTIDS=0", "SLURM_LOCALID=0", "SLURM_NODEID=0",
		"SLURM_PROCID=0", "SLURM_TASK_PID=5",
		"SLURM_CPUS_PER_TASK=3", "SLURM_TOPOLOGY_ADDR=n1", "CUDA_VISIBLE_DEVICES=0,1", "SLURM_JOB_GPUS=0,1", "DISPLAY=:0",
		"HF_TOKEN=secret",
	}
	step = append(slices.Clone(batch),
		"SLURM_STEP_ID=4", "SLURM_STEPID=4", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_NUM_TASKS=1",
		"SLURM_STEP_TASKS_PER_NODE=1",
		"SLURM_STEP_LAUNCHER_PORT=4711", "SLURM_SRUN_COMM_HOST=10.0.0.9", "SLURM_SRUN_COMM_PORT=4711",
		"SLURM_LAUNCH_NODE_IPADDR=10.0.0.9",
		"SLURM_CPU_BIND=quiet,mask_cpu:0x1", "SLURM_CPU_BIND_TYPE=mask_cpu:", "SLURM_DISTRIBUTION=block",
		"SLURM_PTY_PORT=4712", "PMI_FD=11", "PMI_RANK=0",
		"SLURM_PMI2_STEP_NODES=n1",
	)
)

// gorun replaces or removes Slurm variables that would mislead ranks. It keeps those that Slurm commands in a
// rank need.
func TestSlurmOfRanksOnOneNode(t *testing.T) {
	for name, inherited := range map[string][]string{"in a batch script": batch, "in a step": step} {
		t.Run(name, func(t *testing.T) {
			in := job(4, inherited...)
			in.SlurmNodes = "n1"
			e := build(t, in)
			for name, want := range map[string]string{
				"SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_NODEID": "0", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4",
				"SLURM_STEP_NUM_TASKS": "4",
				"SLURM_GTIDS":          "0,1,2,3", "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_NTASKS_PER_NODE": "4",
				"SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "n1", "SLURMD_NODENAME": "n1",
				"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
				"SLURM_JOB_ID":             "17", "SLURM_JOBID": "17", "SLURM_CONF": "/etc/slurm.conf",
				"SLURM_JOB_NODELIST":  "n[1-3]",
				"SLURM_NODELIST":      "n[1-3]",
				"SLURM_JOB_NUM_NODES": "3", "SLURM_CPUS_ON_NODE": "4", "SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1",
				"SLURM_TOPOLOGY_ADDR": "n1",
				"SLURM_CPUS_PER_TASK": "2",
			} {
				assert.Equal(t, want, value(t, e, 3, name), name)
			}
			for _, name := range []string{
				"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_TASK_PID", "SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_HOST",
				"SLURM_SRUN_COMM_PORT",
				"SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_DISTRIBUTION", "SLURM_PTY_PORT", "PMI_FD", "PMI_RANK",
				"SLURM_PMI2_STEP_NODES",
			} {
				_, has := e.of(3, name)
				assert.False(t, has, name)
			}
			room := map[string]string{"in a batch script": "2(x3)", "in a step": "4"}
			assert.Equal(t, room[name], value(t, e, 3, "SLURM_TASKS_PER_NODE"))
			assert.Equal(t, "describes the script or step that gorun runs in; ranks get their own values",
				e.removed("SLURM_NTASKS"))
		})
	}
}

// gorun removes leftover Slurm variables if some or all ranks are outside the Slurm job.
func TestNoSlurm(t *testing.T) {
	e := build(t, job(2, step...))
	for _, name := range []string{
		"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST", "SLURMD_NODENAME",
		"SLURM_CPUS_PER_TASK", "SLURM_STEP_ID",
	} {
		_, has := e.of(1, name)
		assert.False(t, has, name)
	}
	assert.Equal(t, "17", value(t, e, 1, "SLURM_JOB_ID"))
	assert.Equal(t, "Slurm's, and some ranks are outside its job", e.removed("SLURM_NTASKS"))
	e = build(t, job(2))
	_, has := e.of(1, "SLURM_PROCID")
	assert.False(t, has)
}

// engineJob has three nodes. The launcher runs on the first one or elsewhere.
func engineJob(inherited []string, here bool) Inputs {
	in := job(0, inherited...)
	in.Engine, in.SlurmNodes, in.Nodes = true, "n[1-3]", nil
	for i, name := range []string{"n1", "n2", "n3"} {
		in.Nodes = append(in.Nodes, Node{
			Remote: !here || i > 0, Part: name,
			Environ: []string{
				"SLURMD_NODENAME=" + name, "SLURM_TOPOLOGY_ADDR=" + name, "SLURM_CPUS_ON_NODE=9",
				"HOME=/home/" + name, "CUDA_VISIBLE_DEVICES=" + name, "PATH=/there",
			},
		})
	}
	in.Nodes[0].Threads, in.Nodes[0].Why = 2, "4 CPUs ÷ 2 ranks"
	in.Nodes[2].Environ = in.Nodes[2].Environ[:4] // no GPUs
	in.Ranks = []Rank{{Node: 0}, {Node: 0, LocalRank: 1}, {Node: 1}, {Node: 1, LocalRank: 1}, {Node: 2}}
	return in
}

// Ranks in a resource manager's job inherit the launcher's whole environment, and the variables of their own
// node from the node.
func TestEngineNodesInherit(t *testing.T) {
	for name, here := range map[string]bool{"from a login node": false, "from its first node": true} {
		t.Run(name, func(t *testing.T) {
			in := engineJob(append([]string{"PATH=/here", "EDITOR=emacs", "PBS_JOBID=3", "SSH_TTY=/dev/pts/1"}, batch...), here)
			e := build(t, in)
			first := map[bool]string{true: ":0", false: "-"}[here]
			for name, want := range map[string][]string{
				"PATH": {"/here", "/here", "/here"}, "EDITOR": {"emacs", "emacs", "emacs"},
				"HF_TOKEN": {"secret", "secret", "secret"}, "DISPLAY": {first, "-", "-"},
				"CUDA_VISIBLE_DEVICES": {"n1", "n2", "-"}, "SLURM_CPUS_ON_NODE": {"9", "9", "9"},
				"SLURM_TOPOLOGY_ADDR": {"n1", "n2", "n3"},
				"SLURM_JOB_GPUS":      {"-", "-", "-"}, "SLURM_JOB_ID": {"17", "17", "17"}, "PBS_JOBID": {"3", "3", "3"},
				"SLURM_NODEID": {"0", "1", "2"}, "SLURM_GTIDS": {"0,1", "2,3", "4"},
				"SLURM_STEP_TASKS_PER_NODE": {"2(x2),1", "2(x2),1", "2(x2),1"}, "SLURM_TASKS_PER_NODE": {"2(x3)", "2(x3)", "2(x3)"},
				"SLURM_NTASKS_PER_NODE": {"-", "-", "-"}, "SLURMD_NODENAME": {"n1", "n2", "n3"},
				"SLURM_STEP_NODELIST": {"n[1-3]", "n[1-3]", "n[1-3]"},
				"SLURM_STEP_ID":       {"-", "-", "-"}, "SLURM_CPUS_PER_TASK": {"2", "3", "3"}, "SLURM_NNODES": {"3", "3", "3"},
			} {
				assert.Equal(t, want, values(e, in, name), name)
			}
			assert.Empty(t, e.Withheld)
		})
	}
}

// -x sets the visible GPUs on every node.
func TestExportOverridesEngine(t *testing.T) {
	in := engineJob(batch, true)
	in.Exports = []Export{
		{Name: "CUDA_VISIBLE_DEVICES", Value: "1", HasValue: true},
		{Name: "SLURM_CPU_BIND", Value: "none", HasValue: true},
	}
	e := build(t, in)
	assert.Equal(t, []string{"1", "1", "1"}, values(e, in, "CUDA_VISIBLE_DEVICES"))
	assert.Equal(t, []string{"none", "none", "none"}, values(e, in, "SLURM_CPU_BIND"))
	in.Exports = []Export{{Name: "SLURM_PROCID", Value: "1", HasValue: true}}
	_, err := Build(in)
	require.ErrorContains(t, err, "gorun sets SLURM_PROCID for each rank")
}

func TestRunLengths(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "4": {4}, "2(x3),1": {2, 2, 2, 1}, "3,1(x2)": {3, 1, 1},
		"1,2,1": {1, 2, 1},
	} {
		assert.Equal(t, want, runLengths(numbers))
	}
}

func TestWhereSlurmIs(t *testing.T) {
	assert.True(t, InSlurm(batch))
	assert.True(t, InSlurm([]string{"SLURM_NNODES=2"}), "what a node that joined tells")
	assert.False(t, InSlurm([]string{"SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID="}))
	assert.Equal(t, "n1", SlurmNode(batch))
	for _, name := range []string{varSlurmNumNodes, varSlurmNodeName} {
		assert.True(t, Sets(name), "a node that joins tells it")
	}
	assert.False(t, Decides("SLURM_JOB_ID"))
	assert.Equal(t, []string{"SLURM_STEP_GPUS=2,3", "SLURM_JOB_GPUS=2,3"},
		OwnInEngine([]string{"SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=2,3"}), "not those of the script's node")
	assert.Empty(t, OwnInEngine([]string{"SLURM_JOB_GPUS=0,1"}))
	assert.Equal(t, []string{"HOME=/h", "ROCR_VISIBLE_DEVICES=0"},
		OwnInEngine([]string{"HOME=/h", "ROCR_VISIBLE_DEVICES=0", "SLURM_JOB_ID=1", "PATH=/bin"}))
}

// Processes with one rank each, distributed cyclically over two hosts.
func TestSlurmOfTasks(t *testing.T) {
	in := job(0, step...)
	in.SlurmNodes, in.Nodes, in.Ranks = "n[1-2]", nil, nil
	for rank := range 3 {
		in.Nodes = append(in.Nodes, Node{
			Joined: true, Environ: []string{"SLURMD_NODENAME=" + []string{"n1", "n2"}[rank%2]},
			Task: &Task{Group: rank % 2, NumGroups: 2, LocalRanks: 2 - rank%2},
		})
		in.Ranks = append(in.Ranks, Rank{Node: rank, LocalRank: rank / 2})
	}
	e := build(t, in)
	for name, want := range map[string][]string{
		"SLURM_PROCID": {"0", "1", "2"}, "SLURM_LOCALID": {"0", "0", "1"}, "SLURM_NODEID": {"0", "1", "0"},
		"SLURM_GTIDS":               {"0,2", "1", "0,2"},
		"SLURM_STEP_TASKS_PER_NODE": {"2,1", "2,1", "2,1"}, "SLURM_NNODES": {"2", "2", "2"},
		"SLURMD_NODENAME": {"n1", "n2", "n1"}, "GROUP_RANK": {"0", "1", "0"},
	} {
		assert.Equal(t, want, values(e, in, name), name)
	}
}
