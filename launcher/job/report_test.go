package job

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/launcher/internal/spec"
)

func name(s syscall.Signal) (string, string) {
	if s == syscall.SIGSEGV {
		return "SIGSEGV", "invalid memory access"
	}
	return fmt.Sprintf("signal %d", int(s)), ""
}

func TestReport(t *testing.T) {
	failed := RankEnd{
		Rank: 2, PID: 8812, Fate: FateFailed, Signal: syscall.SIGKILL,
		OOM: "limit 2.0 GiB (memory.events oom_kill 0→1)",
	}
	ranks := []RankEnd{{Rank: 0, Fate: FateStopped}, {Rank: 1, Fate: FateStopped}, failed, {Rank: 3, Fate: FateStopped}}
	for _, tc := range []struct {
		name string
		r    Result
		want string
	}{
		{"out of memory", Result{
			Cause: CauseRank, ExitCode: 137, After: Seconds(14 * time.Second), Ranks: ranks,
			First: &Failure{RankEnd: failed, LastLines: []string{"allocating 12.0 GiB"}, Hint: "lower --nproc-per-node"},
		}, `gorun: rank 2 failed first: killed by the kernel, out of memory (pid 8812, after 14s)
  why      node: out of memory: limit 2.0 GiB (memory.events oom_kill 0→1)
  last     │ allocating 12.0 GiB
  others   3 ranks stopped by gorun: [0-1,3]
  hint     lower --nproc-per-node
exit 137
`},
		{
			"asked to end by somebody else",
			Result{
				Cause: CauseRank, ExitCode: 143, After: Seconds(time.Second), Ranks: ranks[2:3],
				First: &Failure{RankEnd: RankEnd{Rank: 2, PID: 8812, Fate: FateFailed, Signal: syscall.SIGTERM}},
			},
			"gorun: the program failed: killed by signal 15 from outside gorun (pid 8812, after 1s)\n" +
				"exit 143\n",
		},
		{
			"several hosts",
			Result{
				Cause: CauseRank, ExitCode: 3, After: Seconds(time.Second),
				Ranks: []RankEnd{
					{Rank: 0, Fate: FateStopped, Host: "node1"},
					{Rank: 1, PID: 4711, Code: 3, Fate: FateFailed, Host: "node2"},
					{Rank: 2, Fate: FateUnknown, Host: "node3"},
					{Rank: 3, Fate: FateUnknown, Host: "node3"},
				},
				First: &Failure{RankEnd: RankEnd{Rank: 1, PID: 4711, Code: 3, Fate: FateFailed, Host: "node2"}},
			},
			"gorun: rank 1 failed first: exit code 3 (node2, pid 4711, after 1s)\n" +
				"  others   1 rank stopped by gorun: [0]\n" +
				"           2 ranks lost with node3: [2-3]\n",
		},
		{
			"a rank that ended early",
			Result{
				Cause: CauseRank, ExitCode: 1, After: Seconds(time.Second),
				Ranks: []RankEnd{{Code: 1, Fate: FateFailed}, {Rank: 1}, {Rank: 2, Code: 1, Fate: FateFailed}, {Rank: 3}},
				First: &Failure{RankEnd: RankEnd{PID: 7, Code: 1, Fate: FateFailed}, EndedFirst: []int{1}},
			},
			"gorun: rank 1 ended first, with exit code 0, while the others still ran; then rank 0 lost a connection: " +
				"exit code 1 (pid 7, after 1s)\n" +
				"  others   1 rank failed in the same way: [2]\n           1 rank succeeded: [3]\n",
		},
		{
			"a host is lost",
			Result{
				Cause: CauseNode, ExitCode: 125, Text: "node2 is lost: silent for 15s",
				Ranks: []RankEnd{{Rank: 0, Fate: FateStopped, Host: "node1"}, {Rank: 1, Fate: FateUnknown, Host: "node2"}},
			},
			"gorun: node2 is lost: silent for 15s\n  ranks    1 rank stopped by gorun: [0]\n" +
				"           1 rank lost with node2: [1]\nexit 125\n",
		},
		{"single program", Result{
			Cause: CauseRank, ExitCode: 3, After: Seconds(1234 * time.Microsecond),
			Ranks: []RankEnd{{PID: 7, Code: 3, Fate: FateFailed}},
			First: &Failure{RankEnd: RankEnd{PID: 7, Code: 3, Fate: FateFailed}},
		}, "gorun: the program failed: exit code 3 (pid 7, after 1ms)\n"},
		{
			"not found",
			Result{Cause: CauseStart, ExitCode: 127, Text: "trainer: not found", Hint: "did you mean ./trainer2?"},
			"gorun: trainer: not found\n  hint     did you mean ./trainer2?\nexit 127\n",
		},
		{
			"deadline",
			Result{Cause: CauseTimeout, ExitCode: 124, After: Seconds(time.Minute)},
			"gorun: timed out after 1m (--timeout)\nexit 124\n",
		},
		{
			"deadline after a rank that ended early",
			Result{
				Cause: CauseTimeout, ExitCode: 124, After: Seconds(time.Minute),
				Ranks: []RankEnd{{Fate: FateStopped}, {Rank: 1}, {Rank: 2, Fate: FateStopped}},
			},
			"gorun: timed out after 1m (--timeout)\n" +
				"  ranks    1 rank succeeded: [1]\n           2 ranks stopped by gorun: [0,2]\nexit 124\n",
		},
		{
			"deadline after a failure that stopped nobody",
			Result{
				Cause: CauseTimeout, ExitCode: 124, After: Seconds(time.Minute), Ranks: ranks,
				First: &Failure{RankEnd: RankEnd{Rank: 2, PID: 8812, Code: 5, Fate: FateFailed}, After: Seconds(3 * time.Second)},
			},
			"gorun: timed out after 1m (--timeout)\ngorun: rank 2 failed first: exit code 5 (pid 8812, after 3s)\n" +
				"  others   3 ranks stopped by gorun: [0-1,3]\nexit 124\n",
		},
		{
			"ranks that do not end when they are asked to",
			Result{Cause: CauseTimeout, ExitCode: 124, After: Seconds(time.Minute), Ranks: []RankEnd{
				{Fate: FateStopped, Signal: syscall.SIGKILL, Killed: true},
				{Rank: 1, Fate: FateStopped, Signal: syscall.SIGTERM},
				{Rank: 2, Fate: FateStopped, Signal: syscall.SIGKILL}, // from outside the job
			}},
			"gorun: timed out after 1m (--timeout)\n" +
				"  killed   1 rank by SIGKILL, still running after --grace: [0]\nexit 124\n",
		},
		{"sigterm of a step", Result{
			Cause: CauseSignal, Signal: syscall.SIGSEGV, Text: "as others do", ExitCode: 139,
			After: Seconds(time.Second),
		}, "gorun: stopped by SIGSEGV after 1s, as others do\nexit 139\n"},
		{
			"ctrl-c",
			Result{Cause: CauseSignal, Signal: syscall.SIGSEGV, ExitCode: 139, After: Seconds(time.Second)},
			"gorun: stopped by SIGSEGV after 1s\nexit 139\n",
		},
		{"success", Result{}, ""},
		{"success after many attempts", Result{Attempts: make([]Attempt, 9)}, ""},
		{"reader gone", Result{Cause: CauseReaderGone, ExitCode: 141}, ""},
		{
			"disk full",
			Result{OutputLost: "write stdout: no space left on device", ExitCode: 125},
			"gorun: output was lost: write stdout: no space left on device\nexit 125\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, tc.r.Report(name, false)) })
	}
}

// Ranks that failed in the same way are separated from those that gorun stopped, and a terminal shows no line twice.
func TestReportOfRanksAlike(t *testing.T) {
	exit := func(rank, code int, fate Fate) RankEnd { return RankEnd{Rank: rank, Code: code, Fate: fate} }
	failure := func(end RankEnd) *Failure {
		return &Failure{
			RankEnd: end, Shown: true, Hint: "try this",
			Traceback: []string{`  File "a.py", line 4`, "ValueError: no such shard"},
		}
	}
	for _, tc := range []struct {
		name                string
		ranks               []RankEnd
		head, shown, others string
	}{
		{
			"all",
			[]RankEnd{exit(0, 3, FateFailed), exit(1, 3, FateFollowed)},
			"gorun: all 2 ranks exited 3 (rank 0 first) after 1s\n",
			"  error    ValueError: no such shard (see above)\n", "",
		},
		{
			"some",
			[]RankEnd{
				exit(0, 3, FateFailed), exit(1, 3, FateFollowed), exit(2, 0, FateSucceeded), exit(3, 1, FateFailed),
				exit(4, 1, FateFollowed),
				{Rank: 5, Signal: syscall.SIGTERM, Fate: FateStopped},
				exit(6, 3, FateFailed),
			},
			"gorun: rank 0 failed first: exit code 3 (pid 0, after 1s)\n",
			"  error    ValueError: no such shard (see above)\n",
			"  others   2 ranks failed in the same way: [1,6]\n           1 rank succeeded: [2]\n" +
				"           1 rank failed, too: [3]\n           1 rank stopped by gorun: [5]\n" +
				"           1 rank failed after gorun stopped it: [4]\n",
		},
		{
			"one program",
			[]RankEnd{exit(0, 3, FateFailed)},
			"gorun: the program failed: exit code 3 (pid 0, after 1s)\n", "", "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Result{
				Cause: CauseRank, ExitCode: 3, After: Seconds(time.Second), Ranks: tc.ranks, First: failure(tc.ranks[0]),
			}
			const quoted = "  error    [0]   File \"a.py\", line 4\n           [0] ValueError: no such shard\n"
			assert.Equal(t, tc.head+tc.shown+tc.others+"  hint     try this\n", r.Report(name, true))
			r.First.Label = "[0] "
			assert.Equal(t, tc.head+quoted+tc.others+"  hint     try this\n", r.Report(name, false))
		})
	}
}

// The report has at most 25 lines, for any number of ranks and lines of any length.
func TestReportIsShort(t *testing.T) {
	long := strings.Split(strings.Repeat(strings.Repeat("x", 5000)+"\n", 100), "\n")
	r := Result{Cause: CauseRank, ExitCode: 1, OutputLost: "lost", Orphans: long[:5], Hint: "b"}
	for i := range 500 {
		r.Ranks = append(r.Ranks, RankEnd{Rank: i, Fate: Fate(i % 5)})
	}
	r.First = &Failure{RankEnd: RankEnd{Rank: 1}, Traceback: long, LastLines: long, Hint: "a", Log: "l"}
	r.NCCL = manyWarnings()
	for i := range 500 {
		if r.Ranks[i].Fate == FateStopped {
			r.Ranks[i].Signal = syscall.SIGKILL
		}
	}
	assert.LessOrEqual(t, strings.Count(r.Report(name, false), "\n"), 25)
	r.Cause, r.First.LastLines = CauseTimeout, nil // never present together with a traceback
	r.Attempts = make([]Attempt, 20)
	for i := range r.Attempts {
		r.Attempts[i].First = r.First
	}
	text := r.Report(name, false)
	assert.LessOrEqual(t, strings.Count(text, "\n"), 25)
	for line := range strings.Lines(text) {
		assert.Less(t, len(line), 200, line)
	}
}

func TestValidate(t *testing.T) {
	good := Spec{Apps: []App{{Program: "a"}}}
	assert.NoError(t, good.Validate())
	bad := Spec{PerNode: Count{Kind: CountFixed}, Store: StoreSpec{Port: 70000}, Timeout: -1}
	err := bad.Validate()
	for _, text := range []string{"no program", "0 ranks per node", "port 70000", "timeout"} {
		assert.ErrorContains(t, err, text)
	}
}

// A rank that runs a second MPI program writes to a connection that the first program has shut down.
func TestHintOfASecondProgram(t *testing.T) {
	for _, c := range []struct {
		end  RankEnd
		hint bool
	}{
		{RankEnd{Code: 141, MPI: &spec.RankMPI{Protocol: "PMI-1", Finalized: true}}, true},
		{RankEnd{Signal: syscall.SIGPIPE, MPI: &spec.RankMPI{Protocol: "PMI-2", Finalized: true}}, true},
		{RankEnd{Code: 141, MPI: &spec.RankMPI{Protocol: "PMI-1"}}, false},
		{RankEnd{Code: 141, MPI: &spec.RankMPI{Protocol: "PMIx 4.2.2", Finalized: true}}, false},
		{RankEnd{Code: 1, MPI: &spec.RankMPI{Protocol: "PMI-1", Finalized: true}}, false},
		{RankEnd{Code: 141}, false},
	} {
		r := Result{First: &Failure{RankEnd: c.end}}
		assert.Equal(t, c.hint, strings.Contains(r.mpiHint(), "`--pmi-port`"), c.end)
	}
}

// TestUnfinalizedHint: the only rank keeps no other ranks waiting.
func TestUnfinalizedHint(t *testing.T) {
	first := &Failure{RankEnd: RankEnd{Unfinalized: true}}
	alone := Result{Cause: CauseRank, Ranks: make([]RankEnd, 1), First: first}
	assert.NotContains(t, alone.mpiHint(), "others")
	among := Result{Cause: CauseRank, Ranks: make([]RankEnd, 3), First: first}
	assert.Contains(t, among.mpiHint(), "others may wait for it")
}

// A result that lacks what its cause promises still has a report.
func TestReportOfAnEmptyResult(*testing.T) {
	for _, c := range []Cause{CauseRank, CauseHang} {
		(&Result{Cause: c}).Report(nil, false)
	}
}
