package job

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/env/plan"
	"gorun/placement"
)

// taskJob returns a spec and the facts of tasks, the last one on host 1 and the others on host 0, with a list of GPUs
// each, "" for none, and CPUs.
func taskJob(gpus []string, cpus ...string) (*Spec, []Facts) {
	spec, facts := onHosts(make([]int, len(cpus))...)
	spec.Hosts, spec.HostsFrom, spec.Environ = nil, "", []string{"PATH=/bin"}
	spec.PerNode = Count{Kind: CountFixed, N: 1}
	for i := range facts {
		f := &facts[i]
		f.Task = &Task{Rank: i, NumRanks: len(cpus), LocalRank: i, LocalRanks: len(cpus) - 1, NumNodes: 2}
		if i == len(cpus)-1 {
			f.Task.Node, f.Task.LocalRank, f.Task.LocalRanks = 1, 0, 1
		}
		f.Joined, f.Environ = i > 0, []string{"PATH=/bin"}
		f.Machine.CPUs, _ = placement.ParseCPUSet(cpus[i])
		if gpus[i] != "" && f.Joined {
			f.Environ = append(f.Environ, "CUDA_VISIBLE_DEVICES="+gpus[i])
		} else if gpus[i] != "" {
			spec.Environ = append(spec.Environ, "CUDA_VISIBLE_DEVICES="+gpus[i])
		}
	}
	spec.Join = &JoinSpec{Task: facts[0].Task, NumNodes: len(cpus)}
	return spec, facts
}

// found returns a variable of a rank's environment, or "-" if it is not set.
func found(p *Plan, rank int, name string) string {
	r := p.Ranks[rank]
	for _, list := range [][]plan.Variable{r.Env, p.CommonOf(r.Node)} {
		for _, v := range list {
			if v.Name == name {
				return v.Value
			}
		}
	}
	return "-"
}

func TestWhereProcessesSit(t *testing.T) {
	spec, facts := taskJob([]string{"", "", "", ""}, "0-15", "0-15", "0-15", "0-7")
	require.NoError(t, spec.Validate())
	p := planOf(t, spec, facts)
	assert.Equal(t, "4 ranks on 2 hosts, one for each process that was started", p.Why)
	for rank, want := range []string{"0 3 0 2 5 5", "1 3 0 2 5 5", "2 3 0 2 5 5", "0 1 1 2 8 -"} {
		got := ""
		for _, name := range []string{
			env.VarLocalRank, env.VarLocalWorldSize, env.VarGroupRank, env.VarGroupWorldSize,
			env.VarOMPNumThreads, env.VarGoMaxProcs,
		} {
			got += found(p, rank, name) + " "
		}
		assert.Equal(t, want+" ", got, "rank %d", rank)
		assert.Zero(t, p.Ranks[rank].CPUs.Len(), "what started the process has bound it")
	}
}

func TestThreadsOfProcessesWithTheirOwnCPUs(t *testing.T) {
	spec, facts := taskJob([]string{"", "", ""}, "0-3", "4-7", "0-1")
	p := planOf(t, spec, facts)
	for rank, want := range []string{"4", "4", "2"} {
		assert.Equal(t, want, found(p, rank, env.VarOMPNumThreads))
		assert.Equal(t, "-", found(p, rank, env.VarGoMaxProcs))
	}
	spec.Place.CPUsPerRank = 2
	require.NoError(t, spec.Validate())
	assert.Equal(t, "2", found(planOf(t, spec, facts), 0, env.VarOMPNumThreads))

	spec.Place.CPUsPerRank, spec.CPUsPerRank, spec.CPUsFrom = 0, 3, "--cpus-per-task of the Slurm job"
	p = planOf(t, spec, facts)
	assert.Equal(t, "3", found(p, 0, env.VarOMPNumThreads))
	assert.Equal(t, "2", found(p, 2, env.VarOMPNumThreads), "no more than it has")
}

func TestGPUsOfProcesses(t *testing.T) {
	own, facts := taskJob([]string{"0", "1", "0"}, "0", "1", "0")
	p := planOf(t, own, facts)
	assert.Contains(t, fmt.Sprint(p.Notes), "each rank sees one GPU (CUDA_VISIBLE_DEVICES=1 for rank 1): that is its "+
		"device 0 (cuda:0), not that of its LOCAL_RANK")
	own.VirtualLocalRank = true
	p = planOf(t, own, facts)
	assert.Empty(t, p.Notes)
	for rank, want := range []string{"0", "1", "0"} {
		assert.Equal(t, want, found(p, rank, env.VarCUDAVisibleDevices))
		assert.Equal(t, "0", found(p, rank, env.VarLocalRank))
	}
	same, facts := taskJob([]string{"0", "0", "1"}, "0", "1", "0")
	assert.Empty(t, planOf(t, same, facts).Notes, "ranks of one host share its GPU")
	for i := range facts[:2] {
		facts[i].Machine.GPUs = []placement.GPU{{PCI: []string{"0000:1b:00.0", "0000:2b:00.0"}[i]}}
	}
	assert.Contains(t, fmt.Sprint(planOf(t, same, facts).Notes), "each rank sees one GPU", "each calls its own 0")
	all, facts := taskJob([]string{"0,1", "0,1", "0,1"}, "0", "1", "0")
	assert.Empty(t, planOf(t, all, facts).Notes)
	all.VirtualLocalRank = true
	assert.Equal(t, "1", found(planOf(t, all, facts), 1, env.VarCUDAVisibleDevices))
}

func TestOptionsRefusedForOneRank(t *testing.T) {
	for want, change := range map[string]func(s *Spec){
		"4 ranks: each of the 2 started processes":        func(s *Spec) { s.Apps[0].NumRanks = 4 },
		"ranks per node: each of the 2 started processes": func(s *Spec) { s.PerNode.N = 4 },
		"srun --distribution":                             func(s *Spec) { s.Place.MapBy.Object = placement.ByNUMA },
		"srun --cpu-bind": func(s *Spec) {
			s.Place.BindTo = placement.BindTo{Given: true, Object: placement.ByCore}
		},
		"srun --gpus-per-task":                       func(s *Spec) { s.Place.Isolate = true },
		"rank 2 of 2: ranks are numbered from 0":     func(s *Spec) { s.Join.Task.Rank = 2 },
		"local rank 1 of 1":                          func(s *Spec) { s.Join.Task.LocalRank = 1 },
		"rank 0 is on host 0 of 0: hosts are number": func(s *Spec) { s.Join.Task.NumNodes = 0 },
	} {
		spec, _ := taskJob([]string{"", ""}, "0", "0")
		change(spec)
		assert.ErrorContains(t, spec.Validate(), want)
	}
}

func TestPlacesThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(f []Facts){
		"node3, node 2, does not know its rank":                           func(f []Facts) { f[2].Task = nil },
		"node1, node 0, does not know its rank":                           func(f []Facts) { f[0].Task = nil },
		"node2 says that it is rank 2 of 3 on 2 hosts, and it is rank 1 ": func(f []Facts) { f[1].Task.Rank = 2 },
		"ranks 0 and 1 say both that they are local rank 0 on host 0":     func(f []Facts) { f[1].Task.LocalRank = 0 },
		"rank 1 says that host 0 has 3 ranks, others that it has 2":       func(f []Facts) { f[1].Task.LocalRanks = 3 },
		"node2: rank 1 is on host 7 of 2":                                 func(f []Facts) { f[1].Task.Node = 7 },
	} {
		spec, facts := taskJob([]string{"", "", ""}, "0", "0", "0")
		change(facts)
		_, err := NewPlan(spec, facts, testIDs, Opened{})
		assert.ErrorContains(t, err, want)
	}
}
