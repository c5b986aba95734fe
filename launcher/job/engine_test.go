package job

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/hosts/engine"
	"gorun/placement"
)

// inSlurm returns a spec from a batch script in an allocation, and the facts of agents that srun started.
func inSlurm(slots ...int) (*Spec, []Facts) {
	spec, facts := onHosts(slots...)
	spec.Reach.Engine = &engine.Start{Engine: "slurm", Job: "Slurm job 17", Once: []string{"srun"}}
	spec.Environ = append(spec.Environ, "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=node[1-3]", "SLURM_NTASKS=3",
		"SLURM_TASKS_PER_NODE=2,1",
		"SLURMD_NODENAME=node1", "SLURM_PROCID=0", "SLURM_CPUS_PER_TASK=2", "CUDA_VISIBLE_DEVICES=0,1", "DISPLAY=:0")
	for i := range facts {
		facts[i].Remote = true // like the launcher's own
		facts[i].Environ = []string{
			"HOME=/home/there", "TMPDIR=/scratch", "SLURMD_NODENAME=" + facts[i].Host, fmt.Sprint("SLURM_CPUS_ON_NODE=", i+4),
			fmt.Sprint("CUDA_VISIBLE_DEVICES=", 2*i, ",", 2*i+1),
		}
	}
	return spec, facts
}

func TestPlanInSlurm(t *testing.T) {
	spec, facts := inSlurm(2, 1)
	compareGolden(t, "slurm", planOf(t, spec, facts))
}

// The first node in the list has rank 0.
func TestNodesOfSlurm(t *testing.T) {
	of := func(change func(spec *Spec, facts []Facts)) string {
		spec, facts := inSlurm(1, 1, 1)
		change(spec, facts)
		return planOf(t, spec, facts).variable(0, "SLURM_STEP_NODELIST").Value
	}
	assert.Equal(t, "node[1-3]", of(func(*Spec, []Facts) {}))
	assert.Equal(t, "node3,node2,node1", of(func(spec *Spec, facts []Facts) {
		slices.Reverse(spec.Hosts)
		slices.Reverse(facts)
	}))
	ssh := func(spec *Spec, facts []Facts) {
		spec.Reach.Engine, facts[0].Remote = nil, false
		for i := range facts {
			facts[i].Environ = nil
		}
	}
	assert.Empty(t, of(ssh), "hosts that Slurm knows nothing of")
	assert.Equal(t, "node1,n8", of(func(spec *Spec, facts []Facts) {
		spec.Reach.Engine, spec.Hosts, spec.Join = nil, nil, &JoinSpec{}
		facts[0].Remote, facts[2].Ranks = false, 0
		facts[1] = Facts{
			Facts: NodeFacts{
				Host: "vm", Environ: []string{"SLURM_NNODES=2", "SLURMD_NODENAME=n8"},
				Programs: facts[1].Programs, Ranks: 1,
			},
			Joined: true,
			Remote: true,
		}
		facts[0].Ranks = 1
		facts[2] = facts[1]
	}), "nodes that came by themselves, of which two are processes on one")
}

// Each node has the GPUs that Slurm gave the job there.
func TestGPUsOfEachNode(t *testing.T) {
	m, err := placement.Example("dgx-h100")
	require.NoError(t, err)
	for i := range m.GPUs {
		m.GPUs[i].UUID = fmt.Sprint("GPU-", i)
	}
	spec, facts := inSlurm(0, 0)
	facts[1].Environ[4] = "CUDA_VISIBLE_DEVICES=2,3,7"
	for i := range facts {
		facts[i].Machine = m
	}
	gpus := func(p *Plan) (list []string) {
		for _, r := range p.Ranks {
			list = append(list, r.GPU)
		}
		return list
	}
	p := planOf(t, spec, facts)
	assert.Equal(t, []string{"0", "1", "2", "3", "7"}, gpus(p), "as many ranks as each node has GPUs")
	assert.Equal(t, "2,3,7", p.variable(4, "CUDA_VISIBLE_DEVICES").Value)

	spec.VirtualLocalRank = true
	p = planOf(t, spec, facts)
	assert.Equal(t, []string{"0", "1", "2", "3", "7"}, gpus(p))
	assert.Equal(t, "7", p.variable(4, "CUDA_VISIBLE_DEVICES").Value)

	spec.VirtualLocalRank, spec.Place.Isolate = false, true
	p = planOf(t, spec, facts)
	assert.Equal(t, "GPU-7", p.variable(4, "CUDA_VISIBLE_DEVICES").Value)

	spec.Place.Isolate, spec.Exports = false, []Export{{Name: "CUDA_VISIBLE_DEVICES", Value: "5", HasValue: true}}
	assert.Equal(t, []string{"5", "5"}, gpus(planOf(t, spec, facts)), "-x counts on every node")

	spec, facts = inSlurm(0, 0) // a process that started by itself brings its own GPUs
	spec.Reach.Engine, spec.Hosts, facts[1].Joined, facts[0].Remote = nil, nil, true, false
	for i := range facts {
		facts[i].Machine = m
	}
	assert.Equal(t, []string{"0", "1", "2", "3"}, gpus(planOf(t, spec, facts)))
}

// A rank runs as many threads as it has requested CPUs.
func TestRequestedCPUs(t *testing.T) {
	none, err := placement.ParseBindTo("none")
	require.NoError(t, err)
	unbound := PlacementSpec{Request: placement.Request{BindTo: none}}
	const asked = "--cpus-per-task of the Slurm job"
	for name, test := range map[string]struct {
		ranks, cpus  int
		place        PlacementSpec
		quota        float64
		threads, why string
		golang       string // value of GOMAXPROCS
	}{
		"fewer than a rank is bound to":   {4, 8, PlacementSpec{}, 0, "8", asked, "8"},
		"fewer than one rank has":         {1, 8, PlacementSpec{}, 0, "8", asked, "8"},
		"one":                             {4, 1, PlacementSpec{}, 0, "1", asked, "2"},
		"fewer than its part":             {4, 8, unbound, 0, "8", asked, "8"},
		"as many as it has":               {4, 32, PlacementSpec{}, 0, "32", "bound to 32 CPUs", ""},
		"more than it has":                {4, 64, PlacementSpec{}, 0, "32", "bound to 32 CPUs", ""},
		"more than its part of a quota":   {4, 64, PlacementSpec{}, 8, "2", "8 of 128 CPUs by cgroup quota ÷ 4 ranks", "2"},
		"more than its part of the CPUs":  {4, 64, unbound, 0, "32", "128 CPUs ÷ 4 ranks", "32"},
		"nothing was asked":               {4, 0, PlacementSpec{}, 0, "32", "bound to 32 CPUs", ""},
		"more ranks than CPUs":            {256, 4, PlacementSpec{}, 0, "1", "128 CPUs ÷ 256 ranks", "2"},
		"fewer than its part of a quota":  {4, 1, PlacementSpec{}, 8, "1", asked, "2"},
		"what -x or the user says counts": {4, 8, PlacementSpec{}, 0, "3", "yours", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := placement.Example("two-socket-intel")
			require.NoError(t, err)
			m.Quota = test.quota
			spec := Spec{
				Apps: []App{{Program: "app", NumRanks: test.ranks}}, Place: test.place, CPUsPerRank: test.cpus,
				CPUsFrom: asked,
			}
			if test.why == "yours" {
				spec.Environ = []string{"OMP_NUM_THREADS=3"}
			}
			p, err := planned(t, spec, 1, m)
			require.NoError(t, err)
			got := p.variable(0, "OMP_NUM_THREADS")
			assert.Equal(t, []string{test.threads, test.why}, []string{got.Value, got.Reason})
			assert.Equal(t, test.golang, p.variable(0, "GOMAXPROCS").Value)
		})
	}
}

// One srun task with 16 CPUs may be a gorun with four ranks. Slurm's CPU count then applies to these ranks together.
func TestSlurmCPUsOfRanks(t *testing.T) {
	m, err := placement.Example("two-socket-intel")
	require.NoError(t, err)
	spec := Spec{
		Apps: []App{{Program: "app", NumRanks: 4}}, CPUsPerRank: 128, CPUsFrom: "…",
		Environ: []string{
			"SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_CPUS_PER_TASK=128", "SLURM_TASKS_PER_NODE=1(x2)",
			"SLURMD_NODENAME=n2",
		},
	}
	p, err := planned(t, spec, 1, m)
	require.NoError(t, err)
	assert.Equal(t, "32", p.variable(3, "SLURM_CPUS_PER_TASK").Value)
	assert.Equal(t, "4", p.variable(3, "SLURM_TASKS_PER_NODE").Value)
	assert.Equal(t, "n2", p.variable(3, "SLURM_STEP_NODELIST").Value)
	assert.Equal(t, plan.Variable{}, p.variable(3, "SLURM_STEP_ID"))
}
