package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/bench"
	"gorun/internal/testneeds"
)

// asRank as first argument makes this binary a rank of one, whose door is in the environment.
const asRank = "as-rank"

// Others make it a run that a signal ends, and what holds a host's namespaces.
const (
	asRun    = "as-run"
	asHolder = "-hold"
)

func TestMain(m *testing.M) {
	roles := map[string]func() error{
		asRank:   func() error { return beRank(4096) },
		asRun:    func() error { return runForAWhile(os.Args[2]) },
		asHolder: func() error { return hold(os.Args[2]) },
	}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A rank does every operation, and run finds its results to be what they must.
func TestRankDoesEveryOperation(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	s, err := startSession("", ours, 1, program{Argv: []string{binary, asRank}})
	require.NoError(t, err)
	defer s.close()
	for _, operation := range allOperations {
		for _, shared := range []bool{false, true} {
			a, err := s.run(task{operation: operation, bytes: 1024, warm: 1, calls: 5, shared: shared})
			require.NoError(t, err)
			require.Positive(t, a.total)
		}
	}
	r := &row{Ranks: 1, Operation: "allreduce", Bytes: 64}
	require.NoError(t, r.measure(options{rounds: 2, batch: time.Millisecond}, &crew{}, newProbe(0, 4*probeBytes), scene{ranks: 1, sessions: map[string]*session{ours: s}}))
	require.GreaterOrEqual(t, len(r.Figures[ours].Samples), 2)
	require.Positive(t, r.Figures[allocated].min())
}

func TestProgramsInCHaveNoWarnings(t *testing.T) {
	gcc := testneeds.Program(t, testneeds.LayerGCC, "gcc")
	for _, name := range []string{"commengine.c", "commraw.c"} {
		source := filepath.Join(testneeds.Repository(t), "internal", "bench", "csrc", name)
		said, err := exec.Command(gcc, "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror", source).CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
}

func TestListsAreRead(t *testing.T) {
	o := options{rounds: 1}
	require.NoError(t, o.parse(lists{operations: "barrier,reduce", sizes: "4,1024", ranks: "2", peers: "mpich", hosts: "1,2", hostSizes: "8", strangers: "4", overlaps: "2"}))
	require.Equal(t, []string{"barrier", "reduce"}, o.operations)
	require.Equal(t, []int{4, 1024}, o.sizes)
	require.Empty(t, o.joins)
	require.Equal(t, []int{1, 2}, o.hosts)
	require.Equal(t, []int{8}, o.hostSizes)
	require.Equal(t, []int{4}, o.strangers)
	require.Equal(t, []int{2}, o.overlaps)
}

func TestListsAreRefused(t *testing.T) {
	for _, row := range []struct {
		lists   lists
		problem string
	}{
		{lists{operations: "reduce,scan"}, `-ops: "scan" is none of allreduce`},
		{lists{sizes: "3"}, `-sizes: "3" is no number from 4`},
		{lists{ranks: "two"}, `-ranks: "two" is no number`},
		{lists{peers: "nccl"}, `-peers: "nccl" is none of openmpi`},
		{lists{strangers: "x"}, `-stranger: "x" is no number`},
		{lists{hosts: "0"}, `-hosts: "0" is no number from 1`},
		{lists{hostSizes: "2"}, `-host-sizes: "2" is no number from 4`},
		{lists{overlaps: "1"}, `-overlap: "1" is no number from 2`},
		{lists{}, "-rounds: 0"},
	} {
		var o options
		require.ErrorContains(t, o.parse(row.lists), row.problem)
	}
}

func TestAnswersAreRead(t *testing.T) {
	a, first, err := parseAnswer("1500 20 3 -2.5\n")
	require.NoError(t, err)
	require.Equal(t, answer{total: 1500, writing: 20, allocations: 3}, a)
	require.Equal(t, -2.5, first)
	for _, line := range []string{"", "1 2 3", "a 2 3 4\n"} {
		_, _, err := parseAnswer(line)
		require.Error(t, err, "%q", line)
	}
}

// What a rank must find in front of its result, for three ranks whose last input began with 7, 8 and 9.
func TestResultsAreKnown(t *testing.T) {
	for _, row := range []struct {
		operation string
		rank      int
		want      float64
		checked   bool
	}{
		{"allreduce", 2, 24, true},
		{"reduce", 0, 24, true},
		{"reduce", 1, 0, false},
		{"broadcast", 2, 7, true},
		{"allgather", 1, 7, true},
		{"sendrecv", 0, 9, true},
		{"sendrecv", 1, 7, true},
		{"barrier", 0, 0, false},
		{"pingpong", 0, 9, true},
		{"pingpong", 1, 0, false},
		{"pingpong", 2, 7, true},
	} {
		want, checked := task{operation: row.operation, calls: 8}.first(row.rank, 3)
		require.Equal(t, row.checked, checked, "%+v", row)
		if checked {
			require.Equal(t, row.want, want, "%+v", row)
		}
	}
}

// steady is a probe that found the machine mostly fast.
func steady() *probe {
	p := &probe{}
	for range 100 {
		p.memories, p.flags = inserted(p.memories, 1000), inserted(p.flags, 100)
	}
	p.flags = inserted(p.flags, 40) // a fluke
	p.memories = inserted(p.memories, 900)
	return p
}

func TestOnlyBatchesBetweenFastProbesCount(t *testing.T) {
	p := steady()
	fast, slow, busy := reading{1100, 110}, reading{1100, 500}, reading{2000, 100}
	f := &figures{probe: p, Samples: []sample{{3, fast, fast}, {1, fast, slow}, {5, fast, fast}, {9, busy, fast}, {4, fast, fast}}}
	require.Equal(t, []float64{3, 4, 5}, f.good())
	require.Equal(t, 3, f.fast())
	require.Equal(t, 3.0, f.min())
	require.Equal(t, 4.0, f.median())

	none := &figures{probe: p, Samples: []sample{{3, slow, slow}, {2, busy, busy}}}
	require.Equal(t, []float64{2, 3}, none.good(), "slow figures are better than none")
	require.Zero(t, (*figures)(nil).min())
	r := row{Figures: map[string]*figures{ours: f, mpich: none}}
	require.Zero(t, r.fast())
	require.Equal(t, 2.0, r.best((*figures).min))
}

func TestProbeSeesTheMachine(t *testing.T) {
	p := newProbe(0, 4*probeBytes)
	require.Positive(t, p.usual().Memory)
	require.Len(t, p.flags, 50)
	p.awaitFast()
	require.Len(t, p.flags, 51, "without patience nothing is waited for")
	require.Positive(t, p.share())
}

func TestWritingIsTakenOff(t *testing.T) {
	f := &figures{Writing: 2, Samples: []sample{{Micros: 5}, {Micros: 1}}}
	f.takeWritingOff()
	require.Equal(t, 3.0, f.Samples[0].Micros)
	require.Positive(t, f.Samples[1].Micros)
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		ranks, bytes int
		operation    string
		shared       bool
		want         string
	}{
		{2, 8, "allreduce", false, "≤ 1"},
		{2, 64 * kib, "allreduce", false, "≤ 0.67"},
		{2, mib, "reducescatter", false, "≤ 0.67"},
		{2, 4 * mib, "allreduce", false, "≤ 1"},
		{2, 64 * mib, "allreduce", false, "≤ 0.3"},
		{2, 64 * mib, "allreduce", true, "≤ 0.2"},
		{2, mib, "alltoall", false, "≤ 1.1"},
		{2, mib, "broadcast", false, "≤ 1"},
		{4, mib, "allreduce", false, "≤ 0.9, 1.2"},
	} {
		require.Equal(t, c.want, goalOf(&row{Ranks: c.ranks, Bytes: c.bytes, Operation: c.operation}, c.shared).String(), "%+v", c)
	}
}

func TestVerdictComparesWithTheBest(t *testing.T) {
	p := steady()
	of := func(us ...float64) *figures {
		f := &figures{probe: p}
		for _, v := range us {
			f.Samples = append(f.Samples, sample{Micros: v, Before: reading{1000, 100}, After: reading{1000, 100}})
		}
		return f
	}
	r := &row{Ranks: 2, Operation: "reduce", Bytes: 8, Figures: map[string]*figures{ours: of(1, 4, 9), mpich: of(2, 3, 3), gloo: of(50)}}
	require.Equal(t, bench.MinOnly, goalOf(r, false).judge(r, r.Figures[ours]))
	require.Equal(t, bench.NoFigure, goalOf(r, false).judge(&row{}, r.Figures[ours]))
	table := collectivesTable([]*row{r})
	require.Equal(t, []string{"2", "reduce", "8", "1.00 / 4.00", "-", "2.00 / 3.00", "50.0 / 50.0", "0.50", "1.33", "≤ 1", "miss (median)", ""}, table.Rows[0])
}

func TestJoiningTable(t *testing.T) {
	table := joiningTable([]joining{
		{4, ours, []time.Duration{time.Millisecond, 2 * time.Millisecond}},
		{4, mpich, []time.Duration{10 * time.Millisecond}},
		{16, ours, []time.Duration{16 * time.Millisecond}},
		{16, mpich, nil},
	})
	require.Equal(t, string(bench.OK), table.Rows[0][7])
	require.Equal(t, string(bench.Miss), table.Rows[1][7], "a millisecond a rank is too much whoever is slower")
}

// A launcher whose ranks do not come is an error that says what it said.
func TestSessionsWithoutRanks(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	_, err = startSession("", "nobody", 2, program{Argv: []string{binary, "-test.run=^$"}})
	require.ErrorContains(t, err, "only 0 of 2 ranks came")
	_, err = startSession("", "nobody", 2, program{Argv: []string{"/nowhere/program"}})
	require.ErrorContains(t, err, "nobody: ")
}
