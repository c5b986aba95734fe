package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/hosts"
	"gorun/placement"
	"gorun/rendezvous/world"
)

// worldsOf returns the worlds of a job with some ranks of each program.
func worldsOf(t *testing.T, change func(s *Spec), facts []Facts, ranks ...int) []world.World {
	t.Helper()
	spec := &Spec{}
	for i, n := range ranks {
		spec.Apps = append(spec.Apps, App{Program: fmt.Sprint("./p", i), NumRanks: n})
	}
	for i := range facts {
		facts[i].TempDir = "/tmp"
		spec.Hosts = append(spec.Hosts, hosts.Host{Name: facts[i].Host, Slots: 2})
		for _, app := range spec.Apps {
			facts[i].Programs = append(facts[i].Programs, Program{
				Path: app.Program, Argv: []string{app.Program, "x"},
				ScriptArg: 1,
			})
		}
	}
	change(spec)
	p, err := NewPlan(spec, facts,
		IDs{Job: "j", Run: "r", Dir: "0123456789abcdef", World: "0123456789abcdef0123456789abcdef", Attempt: 2}, Opened{})
	require.NoError(t, err)
	return p.Worlds
}

// places returns the ranks of a world as "job rank: app, host, node, local rank, node rank".
func places(w world.World) (texts []string) {
	for _, r := range w.Ranks {
		texts = append(texts, fmt.Sprintf("%d: app %d on %s by %d, %d, %d", r.Job, r.App, w.Hosts[r.Host], r.Node,
			r.LocalRank, r.NodeRank))
	}
	return texts
}

// All ranks form one world, with hosts, programs and a universe size.
func TestOneWorld(t *testing.T) {
	worlds := worldsOf(t, func(*Spec) {}, []Facts{
		{Facts: NodeFacts{Host: "a"}},
		{Facts: NodeFacts{Host: "b"}},
		{Facts: NodeFacts{Host: "c"}},
	}, 1, 2)
	require.Len(t, worlds, 1)
	w := worlds[0]
	require.Equal(t, "gorun-0123456789abcdef0123456789abcdef-2-0", w.Name)
	require.Equal(t, []string{"a", "b"}, w.Hosts)
	require.Equal(t, 6, w.Universe)
	require.Equal(t, []world.App{
		{NumRanks: 1, Argv: []string{"./p0", "x"}},
		{NumRanks: 2, Argv: []string{"./p1", "x"}},
	}, w.Apps)
	require.Equal(t, []string{"0: app 0 on a by 0, 0, 0", "1: app 1 on a by 0, 1, 1", "2: app 1 on b by 1, 0, 0"},
		places(w))
}

// With a world for each program, world ranks are numbered within the world, and node ranks within the host.
func TestWorldPerApp(t *testing.T) {
	worlds := worldsOf(t, func(s *Spec) { s.WorldPerApp = true }, []Facts{
		{Facts: NodeFacts{Host: "a"}},
		{Facts: NodeFacts{Host: "b"}},
	}, 1, 3)
	require.Len(t, worlds, 2)
	require.NotEqual(t, worlds[0].Name, worlds[1].Name)
	require.Equal(t, []string{"0: app 0 on a by 0, 0, 0"}, places(worlds[0]))
	require.Equal(t, []string{"a"}, worlds[0].Hosts)
	require.Equal(t, []string{"1: app 0 on a by 0, 0, 1", "2: app 0 on b by 1, 0, 0", "3: app 0 on b by 1, 1, 1"},
		places(worlds[1]))
	require.Equal(t, []world.App{{NumRanks: 3, Argv: []string{"./p1", "x"}}}, worlds[1].Apps)
}

// Several agents on one host count as one host, identified by the boot ID or the resource manager.
func TestNodesOnOneHost(t *testing.T) {
	w := worldsOf(t, func(*Spec) {}, []Facts{
		{Facts: NodeFacts{Host: "a", Boot: "1"}},
		{Facts: NodeFacts{Host: "b", Boot: "2"}},
		{Facts: NodeFacts{Host: "c", Boot: "1"}},
	}, 6)[0]
	require.Equal(t, []string{"a", "b"}, w.Hosts)
	require.Equal(t, "4: app 0 on a by 2, 2, 2", places(w)[4])

	task := func(rank, local, node int) *Task {
		return &Task{Rank: rank, NumRanks: 3, LocalRank: local, LocalRanks: 2 - node, Node: node, NumNodes: 2}
	}
	facts := []Facts{
		{Facts: NodeFacts{Host: "a", Task: task(0, 0, 0)}, Joined: true},
		{Facts: NodeFacts{Host: "b", Task: task(1, 0, 1)}, Joined: true},
		{Facts: NodeFacts{Host: "a", Task: task(2, 1, 0)}, Joined: true},
	}
	w = worldsOf(t, func(s *Spec) { s.Join, s.Hosts = &JoinSpec{Task: facts[0].Task}, nil }, facts, 3)[0]
	require.Equal(t, []string{"a", "b"}, w.Hosts)
	require.Equal(t, []string{"0: app 0 on a by 0, 0, 0", "1: app 0 on b by 1, 0, 0", "2: app 0 on a by 2, 1, 1"},
		places(w))
	require.Equal(t, 3, w.Universe)
}

// Hosts with the same name get distinct names.
func TestHostsOfOneName(t *testing.T) {
	w := worldsOf(t, func(*Spec) {}, []Facts{
		{Facts: NodeFacts{Host: "localhost", Boot: "1"}},
		{Facts: NodeFacts{Host: "localhost", Boot: "2"}},
	}, 4)[0]
	require.Equal(t, []string{"localhost", "localhost-1"}, w.Hosts)
}

// Hosts without slots use their number of cores. Bound ranks have a locality.
func TestWorldOfBoundRanks(t *testing.T) {
	machine, err := placement.Example("two-socket-intel")
	require.NoError(t, err)
	w := worldsOf(t, func(s *Spec) { s.Hosts[0].Slots = 0 }, []Facts{{Facts: NodeFacts{
		Host:    "a",
		Machine: machine,
	}}}, 2)[0]
	require.Equal(t, machine.Cores(), w.Universe)
	require.True(t, strings.HasPrefix(w.Ranks[1].Locality, "SK1:"), w.Ranks[1].Locality)
	require.NotEmpty(t, w.Ranks[1].CPUs)
}

// A world names its mapping, ranking and binding as prterun does, if all ranks share them.
func TestPoliciesOfAWorld(t *testing.T) {
	machine, err := placement.Example("two-socket-intel")
	require.NoError(t, err)
	policies := func(change func(s *Spec), facts ...Facts) (all []string) {
		for _, w := range worldsOf(t, change, facts, 2, 2) {
			all = append(all, w.MapBy+" "+w.RankBy+" "+w.BindTo)
		}
		return all
	}
	byNUMA := mapBy(t, "numa:span")
	job := func(s *Spec) { s.Place.MapBy, s.Oversubscribe = byNUMA, true }
	require.Equal(t, []string{"BYNUMA:OVERSUBSCRIBE:SPAN NUMA NUMA:IF-SUPPORTED"},
		policies(job, Facts{Facts: NodeFacts{Host: "a", Machine: machine}}))
	require.Equal(t, []string{"BYSLOT SLOT NONE"}, policies(func(*Spec) {}, Facts{Facts: NodeFacts{Host: "a"}}),
		"no topology is known")
	app := func(s *Spec) { s.Apps[1].Place = &PlacementSpec{Request: placement.Request{MapBy: byNUMA}} }
	require.Equal(t, []string{"  "}, policies(app, Facts{Facts: NodeFacts{Host: "a", Machine: machine}}))
	app = func(s *Spec) {
		s.WorldPerApp, s.Apps[1].Place = true, &PlacementSpec{Request: placement.Request{MapBy: byNUMA}}
	}
	require.Equal(t, []string{"BYSLOT SLOT CORE:IF-SUPPORTED", "BYNUMA:SPAN NUMA NUMA:IF-SUPPORTED"},
		policies(app, Facts{Facts: NodeFacts{Host: "a", Machine: machine}}))
}

// Programs that use incompatible PMI families cannot be in one world.
func TestTwoFamiliesInOneWorld(t *testing.T) {
	plan := func(change func(s *Spec), families ...string) error {
		spec := &Spec{}
		f := Facts{Facts: NodeFacts{Host: "a", TempDir: "/tmp"}}
		for i, family := range families {
			program := fmt.Sprint("./p", i)
			spec.Apps = append(spec.Apps, App{Program: program, NumRanks: 1})
			f.Programs = append(f.Programs, Program{Path: program, Argv: []string{program}, ScriptArg: 1, MPI: family})
		}
		change(spec)
		_, err := NewPlan(spec, []Facts{f}, testIDs, Opened{})
		return err
	}
	same := func(*Spec) {}
	require.EqualError(t, plan(same, "", "Open MPI", "MPICH"),
		"app 1 (./p1) uses Open MPI, app 2 (./p2) uses MPICH: they cannot share an MPI_COMM_WORLD; --world "+
			"app gives each program a world of its own")
	require.NoError(t, plan(same, "MPICH", "", "MPICH"))
	require.NoError(t, plan(func(s *Spec) { s.WorldPerApp = true }, "Open MPI", "MPICH"))
	require.NoError(t, plan(func(s *Spec) { s.MPI = MPINone }, "Open MPI", "MPICH"))
}

// -usize sets the universe size. With -usize INFINITE, PMI gets no number of slots.
func TestUniverseAsRequested(t *testing.T) {
	for requested, want := range map[int]int{7: 7, UniverseSlots: 6, 0: 6} {
		w := worldsOf(t, func(s *Spec) { s.Universe = requested }, []Facts{
			{Facts: NodeFacts{Host: "a"}},
			{Facts: NodeFacts{Host: "b"}},
			{Facts: NodeFacts{Host: "c"}},
		}, 2)[0]
		require.Equal(t, want, w.Universe)
		require.Equal(t, requested != 0, w.UniverseSet)
	}
}

// Without MPI there is no world, and before the start a world has no name.
func TestWorldsBeforeStart(t *testing.T) {
	require.Empty(t, worldsOf(t, func(s *Spec) { s.MPI = MPINone }, []Facts{{Facts: NodeFacts{Host: "a"}}}, 2))
	require.Equal(t, AtStart, worldName(IDs{World: AtStart}, 0))
	require.LessOrEqual(t, len(worldName(IDs{World: strings.Repeat("f", 32), Attempt: 99999}, 9999)), 63)
}
