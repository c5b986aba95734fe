package dialect

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/job"
)

// allocation has the variables of salloc -N4 --ntasks-per-node=2.
var allocation = []string{
	"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_NTASKS=8",
	"SLURM_TASKS_PER_NODE=2(x4)",
}

// step has the variables of the task on node n of srun -N2 --ntasks-per-node=1.
func step(n string) []string {
	return []string{
		"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
		"SLURM_PROCID=" + n, "SLURM_NODEID=" + n, "SLURM_LOCALID=0", "SLURMD_NODENAME=n1",
	}
}

// TestAllocation shows the hosts of a command line in a Slurm job, and the transport that reaches them.
func TestAllocation(t *testing.T) {
	for line, want := range map[string]struct{ hosts, start string }{
		"gorun x":                              {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"mpirun x":                             {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"gorun --engine slurm x":               {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"gorun --nnodes 2 x":                   {"n1:2 n2:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"gorun --exclude n[1,3] x":             {"n2:2 n4:2", "--nodes=2 --ntasks=2 --nodelist=n[2,4]"},
		"gorun --exclude n2.example.org x":     {"n1:2 n3:2 n4:2", "--nodes=3 --ntasks=3 --nodelist=n[1,3-4]"},
		"gorun -H n2.example.org,N1 x":         {"n2:2 n1:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"gorun -H n2,n1 x":                     {"n2:2 n1:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"gorun -H n2:1 x":                      {"n2:1", "--nodes=1 --ntasks=1 --nodelist=n2"},
		"gorun -H n1,n2 --nnodes 1 x":          {"n1:2", "--nodes=1 --ntasks=1 --nodelist=n1"},
		"torchrun --nnodes 2 x.py":             {"n1:2 n2:2", "--nodes=2 --ntasks=2 --nodelist=n[1-2]"},
		"torchrun --engine slurm x.py":         {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"gorun --ssh ssh x":                    {"n1:2 n2:2 n3:2 n4:2", ""},
		"gorun -H me@n1 x":                     {"n1", "-"},
		"gorun --engine none -H n1 x":          {"n1", "-"},
		"gorun --engine none x":                {"", "-"},
		"gorun --standalone x":                 {"", "-"},
		"torchrun x.py":                        {"", "-"},
		"torchrun --nproc-per-node 2 x":        {"", "-"},
		"torchrun --nnodes 1 --role r x":       {"", "-"},
		"gorun launch --nnodes 1 --tee 3 x.py": {"", "-"},
	} {
		t.Run(line, func(t *testing.T) {
			inv := mustParse(t, line, allocation...)
			require.Equal(t, want.hosts, slotted(inv.Spec.Hosts))
			require.Nil(t, inv.Spec.Join)
			require.Empty(t, inv.Notes)
			start := inv.Spec.Reach.Engine
			if want.start == "-" {
				require.Nil(t, start)
				return
			}
			require.Equal(t, "Slurm job 17", start.Job)
			require.Equal(t, want.start != "", len(start.Once) > 0)
			require.Contains(t, strings.Join(start.Once, " "), want.start)
			for _, h := range inv.Spec.Hosts {
				require.False(t, h.Here, "agents come everywhere")
			}
		})
	}
}

// slotted formats hosts for -H.
func slotted(all []hosts.Host) string {
	var words []string
	for _, h := range all {
		if h.Slots > 0 {
			h.Name += ":" + string(rune('0'+h.Slots))
		}
		words = append(words, h.Name)
	}
	return strings.Join(words, " ")
}

// gorun names the variable that set the number of ranks.
func TestSlotsFrom(t *testing.T) {
	require.Equal(t, "SLURM_TASKS_PER_NODE=2(x4)", mustParse(t, "gorun x", allocation...).Spec.SlotsFrom)
	require.Empty(t, mustParse(t, "gorun -H n1:1,n2 x", allocation...).Spec.SlotsFrom)
}

// -v prints the detected allocation.
func TestAllocationVerbose(t *testing.T) {
	notes := mustParse(t, "gorun -v x", allocation...).Notes
	require.Equal(t, "Slurm job 17: SLURM_JOB_ID=17; SLURM_TASKS_PER_NODE=2(x4)", notes[0])
	require.Contains(t, notes[1], "Slurm job 17: agents are started by srun --overlap ")
	notes = mustParse(t, "gorun -v -H me@n1 x", allocation...).Notes
	require.Equal(t, "Slurm job 17: with users or ports in -H me@n1, gorun reaches all hosts over SSH", notes[1])
	notes = mustParse(t, "gorun x", append([]string{"PATH="}, allocation...)...).Notes
	require.Contains(t, notes[0], "Slurm job 17: srun is not in PATH, so gorun reaches the job's nodes over SSH")
	notes = mustParse(t, "gorun --nnodes 2 --master-addr n1 x", allocation...).Notes
	require.Equal(t, []string{"Slurm job 17: --nnodes 2 --master-addr n1 says that gorun is started on each node; " +
		"without it gorun starts all nodes of the job itself"}, notes)
}

// If one host is outside the allocation, gorun reaches all hosts by SSH and reports that.
func TestHostsOutsideAllocation(t *testing.T) {
	alone := []string{
		"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_TASKS_PER_NODE=1",
		"SLURM_PROCID=0", "SLURM_NODEID=0", "SLURM_LOCALID=0", "SLURMD_NODENAME=n1",
	}
	for _, c := range []struct {
		line        string
		environ     []string
		hosts, note string
	}{
		{
			"gorun -H n1:2,elsewhere x", allocation, "n1:2 elsewhere",
			"elsewhere is not among the nodes of Slurm job 17 (n[1-4]): gorun reaches all hosts over SSH",
		},
		{
			"gorun -H n5,n1,n6 x", allocation, "n5 n1 n6",
			"n[5-6] are not among the nodes of Slurm job 17 (n[1-4]): gorun reaches all hosts over SSH",
		},
		{
			"gorun --hostfile cluster.txt x", allocation, "node1:2 node2:2 node3:2 node4:2",
			"node[1-4] are not among the nodes of Slurm job 17 (n[1-4]): gorun reaches all hosts over SSH",
		},
		{"gorun -H n1,n4 x", alone, "n1 n4", "n4 is not among the nodes of step 17.0 (n1): gorun reaches all hosts over SSH"},
	} {
		inv := mustParse(t, c.line, c.environ...)
		require.Equal(t, c.hosts, slotted(inv.Spec.Hosts))
		require.Nil(t, inv.Spec.Reach.Engine)
		require.Equal(t, []string{c.note}, inv.Notes)
	}
	require.Empty(t, mustParse(t, "gorun -H localhost:2 x", alone...).Notes)
}

// Invalid variables of an engine do not matter if options name hosts.
func TestHostsBesideBrokenVariables(t *testing.T) {
	inv := mustParse(t, "gorun -H h1,h2 x", "SLURM_JOB_ID=5")
	require.Len(t, inv.Spec.Hosts, 2)
	require.Nil(t, inv.Spec.Reach.Engine)
	require.Contains(t, problems(t, "gorun x", "SLURM_JOB_ID=5")[0], "SLURM_JOB_NODELIST is not set")
	require.Contains(t, problems(t, "gorun --engine slurm -H h1 x", "SLURM_JOB_ID=5")[0], "SLURM_JOB_NODELIST is not set")
}

// In an allocation, each rank of another launcher would take all hosts.
func TestAllocationInOtherLauncher(t *testing.T) {
	ompi := append(slices.Clone(allocation), "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2")
	require.Equal(t, []string{"this gorun is rank 1 of 2 of mpirun (OMPI_COMM_WORLD_RANK=1): in Slurm job 17 gorun " +
		"starts all ranks by itself, so leave mpirun out; --engine none starts a job in each rank"},
		problems(t, "gorun x", ompi...))
	hydra := append(slices.Clone(allocation), "PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALRANKID=0")
	require.Contains(t, problems(t, "gorun x", hydra...)[0], "this gorun is rank 0 of 4 of mpiexec (PMI_RANK=0)")
	require.Contains(t,
		problems(t, "gorun x", append(step("1"), "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8")...)[0],
		"rank 3 of 8 of mpirun", "orted is the step's task")

	mustParse(t, "gorun x", append(step("1"), "PMI_RANK=1", "PMI_SIZE=2")...) // srun --mpi=pmi2
	mustParse(t, "gorun x", append(step("1"), "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2")...)
	mustParse(t, "gorun --engine none x", ompi...)
	mustParse(t, "gorun --standalone x", ompi...)
	mustParse(t, "gorun --nnodes 2 --master-addr n1 x", ompi...)
	mustParse(t, "gorun x", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2")
	// in a rank of gorun
	mustParse(t, "gorun x", append(slices.Clone(allocation), "GORUN_JOB_WORLD=1/2", "OMPI_COMM_WORLD_RANK=1",
		"OMPI_COMM_WORLD_SIZE=2")...)
	mustParse(t, "gorun x", append(slices.Clone(allocation), "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1")...)
}

// gorun recognises this host by any of its names, if it is in the allocation.
func TestThisHostInAllocation(t *testing.T) {
	script := append(slices.Clone(allocation), "SLURMD_NODENAME=n3")
	require.Equal(t, "n1:2 n2:2 n4:2", slotted(mustParse(t, "gorun --exclude localhost x", script...).Spec.Hosts))
	require.Equal(t, "n3:2 n1:2", slotted(mustParse(t, "gorun -H here,n1 x", script...).Spec.Hosts))
	require.Equal(t, "n3:1", slotted(mustParse(t, "gorun -H localhost:1 x", script...).Spec.Hosts))
	named := []string{"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n1,here", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=1(x2)"}
	require.Equal(t, "n1:1", slotted(mustParse(t, "gorun --exclude 127.0.0.1 x", named...).Spec.Hosts))
	require.Equal(t, []string{"--exclude localhost: localhost: not among the hosts of SLURM_JOB_NODELIST=n[1-4]"},
		problems(t, "gorun --exclude localhost x", allocation...))
}

// A job with only this host as a node needs no srun.
func TestAllocationWithoutSrun(t *testing.T) {
	spec := mustParse(t, "gorun x", "PATH=", "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=here").Spec
	require.True(t, spec.Hosts[0].Here)
	require.Nil(t, spec.Reach.Engine.Once)
}

// TestSteps shows the node of each gorun in a step, and their endpoint.
func TestSteps(t *testing.T) {
	ports := stepPorts("slurm-17.0")
	require.NotEqual(t, ports, stepPorts("slurm-18.0"))
	for _, p := range ports {
		require.True(t, p >= 20000 && p < 32000)
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ports))), stepPortTries)
	for _, c := range []struct {
		line, node string
		want       job.JoinSpec
	}{
		{"gorun --nproc-per-node 4 x", "0", job.JoinSpec{
			NodeRank: 0, Addr: "n1", Port: ports[0], Ports: ports[1:],
			ID: "slurm-17.0",
		}},
		{"gorun x", "1", job.JoinSpec{NodeRank: 1, Addr: "n1", Port: ports[0], Ports: ports[1:], ID: "slurm-17.0"}},
		{
			"gorun --nnodes 2 --rdzv-id 17 --rdzv-backend c10d --rdzv-endpoint n1:29500 x", "1",
			job.JoinSpec{NodeRank: 1, Addr: "n1", Port: 29500, ID: "17"},
		},
		{
			"torchrun --nnodes 2 --rdzv-id 17 --rdzv-backend c10d --rdzv-endpoint n1.site:29500 x.py", "1",
			job.JoinSpec{NodeRank: 1, Addr: "n1.site", Port: 29500, ID: "17", Insecure: true},
		},
		{"gorun --rdzv-endpoint n2:29500 x", "0", job.JoinSpec{NodeRank: 1, Addr: "n2", Port: 29500, ID: "slurm-17.0"}},
		{"gorun --rdzv-endpoint n2:29500 x", "1", job.JoinSpec{NodeRank: 0, Addr: "n2", Port: 29500, ID: "slurm-17.0"}},
		{"gorun --rdzv-endpoint 10.0.0.2:29500 x", "1", job.JoinSpec{
			NodeRank: -1, Addr: "10.0.0.2", Port: 29500,
			ID: "slurm-17.0",
		}},
		{"gorun --rdzv-endpoint 10.0.0.2 x", "1", job.JoinSpec{
			NodeRank: -1, Addr: "10.0.0.2", Port: ports[0],
			ID: "slurm-17.0",
		}},
		{
			"gorun --nnodes 2 --node-rank 1 --master-addr n1 --master-port 7 x", "1",
			job.JoinSpec{NodeRank: 1, Addr: "n1", Port: 7, ID: "slurm-17.0"},
		},
		{
			"gorun --nnodes 2 --node-rank 0 --master-addr n2 --master-port 7 x", "1",
			job.JoinSpec{NodeRank: 0, Addr: "n2", Port: 7, ID: "slurm-17.0"},
		},
		{"gorun --master-port 7 x", "1", job.JoinSpec{NodeRank: 1, Addr: "n1", Port: 7, ID: "slurm-17.0"}},
		{"gorun --rdzv-endpoint n1:0 x", "1", job.JoinSpec{
			NodeRank: 1, Addr: "n1", Port: ports[0], Ports: ports[1:],
			ID: "slurm-17.0",
		}},
	} {
		t.Run(c.line, func(t *testing.T) {
			inv := mustParse(t, c.line, step(c.node)...)
			require.Empty(t, inv.Notes)
			require.Equal(t, 2, inv.Spec.NumNodes)
			require.Empty(t, inv.Spec.Hosts)
			require.Equal(t, job.StoreSpec{}, inv.Spec.Store)
			got := *inv.Spec.Join
			require.Contains(t, got.From, "SLURM_STEP_NODELIST=n[1-2]")
			got.From, c.want.NumNodes, c.want.NodeID = "", 2, "n1"
			c.want.EngineSignals, c.want.Munge, c.want.HostsExist = true, true, true
			require.Equal(t, c.want, got)
			require.Equal(t, got.ID, inv.Spec.RunID)
		})
	}
	spec := mustParse(t, "gorun x", append(step("1"), "MASTER_ADDR=n2", "MASTER_PORT=9")...).Spec
	require.Equal(t, "n2", spec.Join.Addr)
	require.Equal(t, 9, spec.Join.Port)
	require.Equal(t, 0, spec.Join.NodeRank)
	require.Equal(t, 1,
		mustParse(t, "gorun x", append(step("1"), "SLURM_NODE_ALIASES=n1:10.0.0.7:e1,n2:10.0.0.8:e2")...).Spec.Join.NodeRank)
	require.Nil(t, mustParse(t, "gorun --standalone x", step("1")...).Spec.Join)
	require.Nil(t, mustParse(t, "torchrun x.py", step("1")...).Spec.Join, "torchrun is one node by default")
	require.Nil(t, mustParse(t, "gorun x", append(step("1"), "GORUN_JOB=1", "GORUN_JOB_ENGINE=slurm:17")...).Spec.Join,
		"a rank of another gorun")
	require.Contains(t, strings.Join(mustParse(t, "gorun -v --rdzv-endpoint n2 x", step("1")...).Notes, "\n"),
		"n2 is node 1 of the step, and node 0 of this job, because the nodes meet there")
	require.Contains(t, strings.Join(mustParse(t, "gorun -v --rdzv-endpoint 10.0.0.1 x", step("1")...).Notes, "\n"),
		"the node that has this address is node 0")
}

// A node refuses the job's number of ranks, and suggests the node's number.
func TestStepCounts(t *testing.T) {
	require.Equal(t, []string{"-n 4 is for a gorun that starts all nodes; of 2 nodes that are started one by one each " +
		"says how many ranks it has: use --nproc-per-node 2"}, problems(t, "gorun -n 4 x", step("1")...))
	require.Equal(t, 2, mustParse(t, "gorun -n 4 --nproc-per-node 2 x", step("1")...).Spec.PerNode.N)
}

// A node refuses at once a node rank that contradicts Slurm.
func TestStepRankOfAnother(t *testing.T) {
	const first = "the nodes of step 17.0 meet at n1, which is node 0, and this is n2: leave --node-rank out, and each " +
		"node has its number of the step"
	for _, c := range []struct{ line, node, want string }{
		{"gorun --nnodes 2 --node-rank 0 x", "1", "--node-rank 0: " + first},
		{"torchrun --nnodes=2 --node-rank=0 --master-addr n1 x.py", "1", "--node-rank=0: " + first},
		{"gorun --node-rank 1 x", "0", "--node-rank 1: this is n1, where the nodes of step 17.0 meet, and so node 0: leave " +
			"--node-rank out, and each node has its number of the step"},
		{
			"gorun --nnodes 2 --node-rank 0 --rdzv-endpoint n2:7 x", "0",
			"--node-rank 0: the nodes of step 17.0 meet at n2, which is node 0, and this is n1: leave --node-rank out, and " +
				"each node has its number of the step",
		},
	} {
		require.Equal(t, []string{c.want}, problems(t, c.line, step(c.node)...))
	}
	for _, line := range []string{
		"gorun --node-rank 0 x", "gorun --node-rank 1 --master-addr n2 --nnodes 2 x",
		"gorun --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 x",
	} {
		mustParse(t, line, step("0")...)
	}
	mustParse(t, "gorun --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 x", step("1")...)
}

// A step of one task is a job on one host; options can still add hosts.
func TestStepOfOneTask(t *testing.T) {
	one := []string{
		"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_TASKS_PER_NODE=1",
		"SLURM_PROCID=0", "SLURM_NODEID=0", "SLURM_LOCALID=0",
	}
	spec := mustParse(t, "gorun -n 3 x", one...).Spec
	require.Nil(t, spec.Join)
	require.Empty(t, spec.Hosts)
	require.Nil(t, spec.Reach.Engine)
	j := mustParse(t, "gorun --nnodes 2 --node-rank 0 --master-addr n1 x", one...).Spec.Join
	require.Equal(t, 2, j.NumNodes)
	require.True(t, j.Munge)
	require.Equal(t, "a b", slotted(mustParse(t, "gorun -H a,b x", one...).Spec.Hosts))
}

// taskVariables has the variables of task 3 of srun -n4 on two nodes.
var taskVariables = []string{
	"SLURM_JOB_ID=17", "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=2(x2)",
	"SLURM_PROCID=3", "SLURM_NODEID=1", "SLURM_LOCALID=1", "SLURMD_NODENAME=n2",
}

// Ranks run as many threads as the job has CPUs per task, unless an option sets the CPUs.
func TestEngineCPUs(t *testing.T) {
	one := []string{
		"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_TASKS_PER_NODE=1",
		"SLURM_PROCID=0", "SLURM_NODEID=0", "SLURM_LOCALID=0",
	}
	for what, variables := range map[string][]string{
		"allocation": allocation, "one a node": step("0"), "one": one,
		"tasks": taskVariables,
	} {
		variables = append(slices.Clone(variables), "SLURM_CPUS_PER_TASK=2")
		spec := mustParse(t, "gorun x", variables...).Spec
		require.Equal(t, 2, spec.CPUsPerRank, what)
		require.Equal(t, "--cpus-per-task of the Slurm job", spec.CPUsFrom)
		require.Zero(t, mustParse(t, "gorun --cpus-per-rank 3 x", variables...).Spec.CPUsPerRank, what)
		require.Zero(t, mustParse(t, "gorun --engine none x", variables...).Spec.CPUsPerRank, what)
	}
	require.Zero(t,
		mustParse(t, "gorun -H a,b x", append(slices.Clone(allocation), "SLURM_CPUS_PER_TASK=2")...).Spec.CPUsPerRank)
}

// uneven has the variables of a task on the first node, which has three of four tasks.
var uneven = []string{
	"SLURM_JOB_ID=17", "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=3,1",
	"SLURM_PROCID=0", "SLURM_NODEID=0", "SLURM_LOCALID=0", "SLURMD_NODENAME=n1",
}

// If a node has several tasks, each task is a rank.
func TestTasks(t *testing.T) {
	ports := stepPorts("slurm-17.2")
	for _, line := range []string{
		"gorun x", "gorun -n 4 x", "gorun --nproc-per-node 2 x", "gorun --nnodes 2 x",
		"gorun --nproc-per-node 1 x",
	} {
		spec := mustParse(t, line, taskVariables...).Spec
		require.Equal(t, &job.Task{Rank: 3, NumRanks: 4, LocalRank: 1, LocalRanks: 2, Node: 1, NumNodes: 2}, spec.Join.Task)
		require.Equal(t, job.Count{Kind: job.CountFixed, N: 1, From: "step 17.2"}, spec.PerNode)
		require.Equal(t, 0, spec.Apps[0].NumRanks)
		require.Equal(t, "n1", spec.Join.Addr)
		require.Equal(t, ports[0], spec.Join.Port)
		require.Equal(t, 3, spec.Join.NodeRank)
		require.Equal(t, 4, spec.Join.NumNodes)
	}
	j := mustParse(t, "gorun --nnodes 4 --nproc-per-node 1 --rdzv-endpoint n1:29500 --rdzv-id 1 x",
		taskVariables...).Spec.Join
	require.Nil(t, j.Task, "each task is a node, as torchrun has it")
	require.Equal(t, 4, j.NumNodes)
	require.Equal(t, -1, j.NodeRank)
	require.Equal(t, "n1", mustParse(t, "gorun --rdzv-endpoint n2:5 x", taskVariables...).Spec.Join.Addr,
		"rank 0 is there")
	alone := slices.Concat(taskVariables, []string{
		"SLURM_STEP_NODELIST=n2", "SLURM_STEP_TASKS_PER_NODE=4", "SLURM_NODEID=0",
		"SLURM_LOCALID=3",
	})
	require.Equal(t, "localhost", mustParse(t, "gorun x", alone...).Spec.Join.Addr, "on one host no token is needed")
	require.Equal(t, "n2", mustParse(t, "gorun --master-addr n2 --insecure-join x",
		append(alone, "HOME=/")...).Spec.Join.Addr)
}

func TestEngineProblems(t *testing.T) {
	const instead = ": start gorun once per node (srun -N2 -n2 --ntasks-per-node=1 gorun ...), and it starts ranks itself"
	const has = ": step 17.2 has 4 tasks, 2 of them on this node, and each is one rank" + instead
	for _, c := range []struct {
		line      string
		variables []string
		want      []string
	}{
		{"gorun --engine magic x", nil, []string{"--engine magic: not one of " + engineNames()}},
		{
			"gorun --engine slurm x", nil,
			[]string{"--engine slurm: this process is not in a job of Slurm: SLURM_JOB_ID is not set"},
		},
		{"gorun --nnodes 5 x", allocation, []string{"--nnodes 5: there are 4 hosts in SLURM_JOB_NODELIST=n[1-4]"}},
		{"gorun --exclude n9 x", allocation, []string{"--exclude n9: n9: not among the hosts of SLURM_JOB_NODELIST=n[1-4]"}},
		{
			"gorun x",
			[]string{"SLURM_JOB_ID=1"},
			[]string{"SLURM_JOB_NODELIST is not set, and SLURM_JOB_ID is; --engine none does without Slurm"},
		},
		{"gorun --nnodes 3 x", step("0"), []string{"--nnodes 3 contradicts step 17.0, whose tasks are on 2 nodes " +
			"(SLURM_STEP_NODELIST=n[1-2]): leave it out; --standalone makes a job of each task, and --engine none knows of no " +
			"step"}},
		{"gorun --nnodes 1 x", step("0"), []string{"--nnodes 1 contradicts step 17.0, whose tasks are on 2 nodes " +
			"(SLURM_STEP_NODELIST=n[1-2]): leave it out; --standalone makes a job of each task, and --engine none knows of no " +
			"step"}},
		{"gorun -n 3 x", taskVariables, []string{"-n 3" + has}},
		{"gorun --nproc-per-node 4 x", taskVariables, []string{"--nproc-per-node 4" + has}},
		{
			"gorun --nproc-per-node 1 --nnodes 3 x", taskVariables,
			[]string{"--nnodes 3 contradicts step 17.2, whose tasks are on 2 " +
				"nodes (SLURM_STEP_NODELIST=n[1-2]): leave it out; --standalone makes a job of each task, and --engine none " +
				"knows of no step"},
		},
		{
			"gorun --nproc-per-node 3 x", uneven,
			[]string{"--nproc-per-node 3: step 17.2 has 4 tasks, 3 of them on this node, and each is one rank" + instead},
		},
		{"gorun --nproc-per-node gpu x", taskVariables, []string{"--nproc-per-node gpu" + has}},
		{
			"gorun -n 1 x : -n 3 y", taskVariables,
			[]string{"several programs do not go with a step that has several tasks on a node, each of which is one rank" +
				instead},
		},
		{
			"gorun -H a,b x", taskVariables,
			[]string{"-H a,b: each of the 4 tasks of step 17.2 would start a job on these hosts: " +
				"start gorun once (srun -n1 gorun ...), or leave the hosts out"},
		},
	} {
		t.Run(c.line, func(t *testing.T) { require.Equal(t, c.want, problems(t, c.line, c.variables...)) })
	}
}

func engineNames() string { return strings.Join(engine.Names(), ", ") }
