package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/spec"
	"gorun/placement"
	"gorun/rendezvous/world"
)

var began = time.Unix(1_000_000_000, 0)

// growing returns a supervisor of two nodes with two running ranks each.
func growing(t *testing.T) *Supervisor {
	t.Helper()
	s, orders := NewSupervisor(SupervisorConfig{Nodes: [][]int{{0, 1}, {2, 3}}, StartedAt: began, Grace: time.Second})
	require.Empty(t, orders)
	require.Empty(t, s.Next(Running{Node: 0, PIDs: map[int]int{0: 10, 1: 11}, At: began}))
	require.Empty(t, s.Next(Running{Node: 1, PIDs: map[int]int{2: 12, 3: 13}, At: began}))
	return s
}

// A node is cleaned up when all its ranks have ended, including the ranks spawned there.
func TestANodeEndsWithItsLastRank(t *testing.T) {
	s := growing(t)
	require.NoError(t, s.Grow(map[int][]int{1: {4, 5}}))
	require.Empty(t, s.Next(Exited{Exit: spec.Exit{Rank: 2, At: began}}))
	require.Empty(t, s.Next(Exited{Exit: spec.Exit{Rank: 3, At: began}}))
	require.Empty(t, s.Next(Exited{Exit: spec.Exit{Rank: 4, At: began}}), "it may end before its node says that it runs")
	require.Empty(t, s.Next(Growth{Node: 1, Ranks: []int{4, 5}, PIDs: map[int]int{4: 14, 5: 15}, At: began}))
	require.True(t, s.CanGrow(1))
	require.Equal(t, []Order{Cleanup{Node: 1, Grace: time.Second}}, s.Next(Exited{Exit: spec.Exit{Rank: 5, At: began}}))
	require.False(t, s.CanGrow(1))
	require.Error(t, s.Grow(map[int][]int{1: {6}}))
	require.Len(t, s.Result().Ranks, 6)
}

// Ranks that could not be started never belonged to the job.
func TestRanksThatCouldNotBeStarted(t *testing.T) {
	s := growing(t)
	require.NoError(t, s.Grow(map[int][]int{0: {4}, 1: {5, 6}}))
	require.Empty(t, s.Next(Growth{Node: 0, Ranks: []int{4}, At: began}))
	require.Empty(t, s.Next(Growth{Node: 1, Ranks: []int{5, 6}, PIDs: map[int]int{5: 15}, At: began}))
	for rank := range 2 {
		s.Next(Exited{Exit: spec.Exit{Rank: rank, At: began}})
	}
	require.False(t, s.CanGrow(0))
	require.Len(t, s.Result().Ranks, 5)
	s.Next(Exited{Exit: spec.Exit{Rank: 2, At: began}})
	s.Next(Exited{Exit: spec.Exit{Rank: 3, At: began}})
	require.Equal(t, []Order{Cleanup{Node: 1, Grace: time.Second}}, s.Next(Exited{Exit: spec.Exit{Rank: 5, At: began}}))
}

// A spawn that fails in part ends the job, which waits for ranks of another spawn that is not answered yet.
func TestASpawnFailsWhileAnotherIsUnderWay(t *testing.T) {
	s := growing(t)
	require.NoError(t, s.Grow(map[int][]int{0: {4}}))
	failed := StartFailed{Node: 0, Rank: -1, Code: ExitLauncher, Text: "no room", At: began}
	require.NotEmpty(t, s.Next(failed))
	s.Next(failed)
	s.Next(Exited{Exit: spec.Exit{Rank: 0, At: began}})
	require.Empty(t, s.Next(Exited{Exit: spec.Exit{Rank: 1, At: began}}), "rank 4 may run")
	require.Empty(t, s.Next(Growth{Node: 0, Ranks: []int{4}, PIDs: map[int]int{4: 14}, At: began}))
	require.Equal(t, []int{1, 2}, s.NumRunning())
	require.Equal(t, []Order{Cleanup{Node: 0, Grace: time.Second}}, s.Next(Exited{Exit: spec.Exit{Rank: 4, At: began}}))
}

// A failure of a spawned rank stops the job, which gets no more ranks then.
func TestASpawnedRankFails(t *testing.T) {
	s := growing(t)
	require.NoError(t, s.Grow(map[int][]int{0: {4}}))
	s.Next(Growth{Node: 0, Ranks: []int{4}, PIDs: map[int]int{4: 14}, At: began})
	require.NotEmpty(t, s.Next(Exited{Exit: spec.Exit{Rank: 4, Code: 3, At: began.Add(time.Millisecond)}}))
	require.Error(t, s.Grow(map[int][]int{0: {5}}))
	require.Equal(t, 3, s.Result().ExitCode)
	require.Equal(t, 4, s.Result().First.Rank)
}

// spawnable returns a plan of six ranks on two hosts of four slots, with its spec and facts.
func spawnable(t *testing.T) (*Plan, *Spec, []Facts) {
	t.Helper()
	spec := &Spec{Apps: []App{{Program: "./p", NumRanks: 6, Dir: "/srv"}}}
	facts := []Facts{{Facts: NodeFacts{Host: "a", TempDir: "/tmp", Boot: "1"}}, {Facts: NodeFacts{
		Host:    "b",
		TempDir: "/tmp", Boot: "2",
	}}}
	for i := range facts {
		spec.Hosts = append(spec.Hosts, hosts.Host{Name: facts[i].Host, Slots: 4})
		facts[i].Programs = []Program{{Path: "./p", Argv: []string{"./p"}, ScriptArg: 1}}
		facts[i].Machine = placement.Machine{CPUs: placement.CPUSetOf([]uint64{0xf})}
	}
	p, err := NewPlan(spec, facts, IDs{
		Job: "0123456789abcdef0123456789abcdef", Run: "r", Dir: "0123456789abcdef",
		World: "0123456789abcdef0123456789abcdef",
	}, Opened{})
	require.NoError(t, err)
	return p, spec, facts
}

// firstOf returns the first rank of a job's first world.
func firstOf(p *Plan) world.Proc { return world.Proc{World: p.Worlds[0].Name} }

// requestOf returns a request of the first rank of the plan of spawnable.
func requestOf(p *Plan, apps ...world.SpawnApp) SpawnRequest {
	return SpawnRequest{
		Spawn: world.Spawn{By: firstOf(p), Apps: apps}, Accepts: func(int) bool { return true },
		Ended: func(int) bool { return false }, Running: []int{4, 2},
	}
}

// New ranks go to nodes with free slots, then to those with the fewest ranks. Their world numbers its own ranks, and
// hosts number the ranks of all worlds.
func TestSpawn(t *testing.T) {
	p, spec, facts := spawnable(t)
	req := requestOf(p, world.SpawnApp{Program: "./child", Args: []string{"x"}, NumRanks: 4}, world.SpawnApp{
		Program: "other", Dir: "sub", NumRanks: 1, Path: "/opt", Env: []string{"A=1", "PMIX_RANK=7", "OMPI_MCA_ess=pmi"},
	})
	req.By.Rank = 1
	next, more, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	require.Len(t, p.Ranks, 6, "the plan itself stays as it was")
	require.Len(t, next.Ranks, 11)
	require.Equal(t, map[int][]int{0: {8, 10}, 1: {6, 7, 9}}, more.ByNode())
	require.Equal(t, []int{4, 5, 6, 7, 9}, next.Nodes[1].Ranks)
	w := more.World
	require.Equal(t, p.Worlds[0].Name+"-s1", w.Name)
	require.Equal(t, req.By, w.Parent)
	require.Equal(t, "BYSLOT SLOT NONE", w.MapBy+" "+w.RankBy+" "+w.BindTo)
	require.Equal(t, []string{
		"6: app 0 on b by 1, 0, 2", "7: app 0 on b by 1, 1, 3", "8: app 0 on a by 0, 0, 4", "9: app 0 on b by 1, 2, 4",
		"10: app 1 on a by 0, 1, 5",
	}, places(w))
	require.Equal(t, "/srv", more.Apps[0].Dir)
	require.Equal(t, "/srv/sub", more.Apps[1].Dir)
	require.Equal(t, []string{"", "/opt"}, []string{more.Apps[0].Path, more.Apps[1].Path})
	own := strings.Join(plan.Entries(slices.Concat(more.CommonOf(0), more.Ranks[4].Env)), "\n") + "\n"
	for _, want := range []string{
		"\nRANK=4\n", "WORLD_SIZE=5\n", "PMI_SPAWNED=1\n", "PMIX_NAMESPACE=" + w.Name + "\n",
		"PMI_RANK=4\n", "OMPI_COMM_WORLD_NODE_RANK=5\n", "\nA=1\n",
	} {
		require.Contains(t, own, want)
	}
	require.NotContains(t, own, "MASTER_")
	require.Equal(t, w.Name, next.Worlds[1].Name)

	again, _, err := next.Spawn(spec, facts, req, 2)
	require.NoError(t, err)
	require.Len(t, again.Ranks, 16)
	require.Equal(t, 11, again.Worlds[2].Ranks[0].Job)

	// If a node starts the job's programs in its own way, its spawned ranks can spawn, too.
	next.Nodes[1].Apps = slices.Clone(p.Apps)
	req.Node, req.By = 1, world.Proc{World: w.Name, Rank: 0}
	req.Apps[0].Dir = ""
	_, more, err = next.Spawn(spec, facts, req, 3)
	require.NoError(t, err)
	require.Equal(t, "/srv", more.Apps[0].Dir, "that of the rank which spawns")
}

// Only running ranks occupy slots.
func TestSpawnWhereRanksHaveEnded(t *testing.T) {
	p, spec, facts := spawnable(t)
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 2})
	p, more, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	require.Equal(t, map[int][]int{1: {6, 7}}, more.ByNode())
	p, more, err = p.Spawn(spec, facts, req, 2) // the others have ended
	require.NoError(t, err)
	require.Equal(t, map[int][]int{1: {8, 9}}, more.ByNode())
	require.Equal(t, []int{0, 1}, []int{more.Ranks[0].LocalRank, more.Ranks[1].LocalRank})
	req.Running = []int{4, 4}
	_, more, err = p.Spawn(spec, facts, req, 3)
	require.NoError(t, err)
	require.Equal(t, map[int][]int{0: {10}, 1: {11}}, more.ByNode())
}

// An environment that all new ranks share is in a frame only once.
func TestSpawnedRanksShareTheirExports(t *testing.T) {
	p, spec, facts := spawnable(t)
	env := []string{"A=1", "B=2"}
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 2, Env: env},
		world.SpawnApp{Program: "./d", NumRanks: 1, Env: []string{"A=1", "B=3"}})
	_, more, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	require.Contains(t, plan.Entries(more.Common), "A=1")
	require.NotContains(t, plan.Entries(more.Common), "B=2")
	for i, b := range []string{"B=2", "B=2", "B=3"} {
		require.Contains(t, plan.Entries(more.Ranks[i].Env), b)
		require.NotContains(t, plan.Entries(more.Ranks[i].Env), "A=1")
	}
}

// Ended worlds are dropped, except for the most recent ones and the parents of running ones.
func TestPlanWithoutWorldsThatAreOver(t *testing.T) {
	p, spec, facts := spawnable(t)
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 1})
	for number := range keptWorlds + 4 {
		var more *Spawned
		var err error
		p, more, err = p.Spawn(spec, facts, req, number)
		require.NoError(t, err)
		if req.By, req.Node = firstOf(p), 0; number == 1 {
			req.By, req.Node = world.Proc{World: more.World.Name}, more.Ranks[0].Node
		}
	}
	const running = 6 + 2 // the child of world 1's child
	next, over := p.PruneWorlds(func(rank int) bool { return rank >= 6 && rank != running })
	require.Equal(t, []string{p.Worlds[0].Name + "-s3", p.Worlds[0].Name + "-s0"}, over)
	require.Len(t, next.Worlds, len(p.Worlds)-2)
	require.Equal(t, p.Worlds[0].Name, next.Worlds[0].Name)
	require.Equal(t, p.Worlds[0].Name+"-s1", next.Worlds[1].Name)
	require.Len(t, p.Worlds, 1+keptWorlds+4)

	_, more, err := next.Spawn(spec, facts, req, 99)
	require.NoError(t, err)
	for _, w := range next.Worlds {
		for _, r := range w.Ranks {
			if w.Hosts[r.Host] == more.World.Hosts[0] {
				require.NotEqual(t, r.NodeRank, more.World.Ranks[0].NodeRank, "among all of its host")
			}
		}
	}
}

// A program that spawns itself is stopped.
func TestRunawaySpawn(t *testing.T) {
	p, spec, facts := spawnable(t)
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 1000}, world.SpawnApp{Program: "./d", NumRanks: 18})
	_, _, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	req.Running[1]++
	_, _, err = p.Spawn(spec, facts, req, 1)
	require.ErrorContains(t, err, "./c: 7 ranks run, and 1018 more would exceed 1024")
	require.ErrorContains(t, err, "begin with more ranks (gorun -np)")
}

// The error contains the reason why ranks cannot be spawned.
func TestNoSpawn(t *testing.T) {
	p, spec, facts := spawnable(t)
	for _, c := range []struct {
		app  world.SpawnApp
		open bool
		want string
	}{
		{world.SpawnApp{Program: "./c", NumRanks: 0}, true, "0 ranks"},
		{world.SpawnApp{Program: "./c", NumRanks: 1 << 40}, true, "up to 32768"},
		{world.SpawnApp{Program: "./c", NumRanks: 1, Hosts: "elsewhere"}, true, "elsewhere: the job has a,b"},
		{world.SpawnApp{Program: "./c", NumRanks: 1}, false, "the job is stopping"},
	} {
		req := requestOf(p, c.app)
		req.Accepts = func(int) bool { return c.open }
		_, _, err := p.Spawn(spec, facts, req, 1)
		require.ErrorContains(t, err, c.want)
	}
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 3})
	facts[1].Joined = true
	_, more, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	require.Len(t, more.ByNode()[0], 3, "a node that joined runs its own command line alone")
	facts[0].Task = &Task{}
	_, _, err = p.Spawn(spec, facts, req, 1)
	require.ErrorContains(t, err, "start one gorun on each node")
}

// A request's environment is for the spawned program. It cannot set gorun's own rank variables or a path that gorun
// itself uses.
func TestSpawnSetsNothingOfGorun(t *testing.T) {
	p, spec, facts := spawnable(t)
	own := []string{
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_ERROR_FILE", "GORUN_JOB_KEY", "GORUN_TOKEN",
		"PMI_RANK", "PMI_FD", "PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMIX_GDS_MODULE", "PMIX_DSTORE_ESH_BASE_PATH",
	}
	app := world.SpawnApp{Program: "./c", NumRanks: 1, Env: []string{"LD_PRELOAD=/ours", "PMIX_ENV_VALUE=3"}}
	for _, name := range own {
		app.Env = append(app.Env, name+"=/theirs")
	}
	req := requestOf(p, app)
	_, more, err := p.Spawn(spec, facts, req, 1)
	require.NoError(t, err)
	r := more.Ranks[0]
	environ := plan.Entries(slices.Concat(more.CommonOf(r.Node), r.Env))
	for _, name := range own {
		require.NotContains(t, environ, name+"=/theirs")
	}
	require.Contains(t, environ, "LD_PRELOAD=/ours", "it may run anything")
	require.Contains(t, environ, "PMIX_ENV_VALUE=3", "a child of OpenPMIx's examples knows by it that it is one")
}

// A job without MPI has no worlds.
func TestNoSpawnWithoutMPI(t *testing.T) {
	p, spec, facts := spawnable(t)
	req := requestOf(p, world.SpawnApp{Program: "./c", NumRanks: 1})
	p.MPI, p.Worlds = MPINone, nil
	_, _, err := p.Spawn(spec, facts, req, 1)
	require.ErrorContains(t, err, "this job serves no MPI")
}
