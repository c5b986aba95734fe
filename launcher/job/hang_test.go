package job

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
)

func TestRanksThatDoTheSameShareTheirLines(t *testing.T) {
	h := Hang{Hang: spec.Hang{Quiet: Seconds(90 * time.Second)}}
	for rank := range 8 {
		r := spec.Activity{
			Rank: rank, PID: 100 + rank, State: "sleeping", CPU: rank % 3, Keys: []string{"init/5"},
			Stack: []string{"recv (lib/a.py:1)", "step (lib/a.py:2)", "x", "y", "main (a.py:3)"},
		}
		if rank == 5 {
			r = spec.Activity{
				Rank: rank, PID: 105, State: "running", CPU: 99, Stack: []string{"load (a.py:9)"},
				LastLine: " loading shard 5\t",
			}
		}
		h.Ranks = append(h.Ranks, r)
	}
	assert.Equal(t, []string{
		"hang: no output and no rendezvous progress for 1m30s (--hang-timeout)",
		"  verdict  rank 5: in a.py:9 (load); the other 7 ranks: waiting in the store",
		"  [5]      running, 99 % CPU; last line: loading shard 5",
		"           │ load (a.py:9)",
		`  [0-4,6-7] sleeping, 0 % CPU, waits in the store for "init/5"`,
		"           │ recv (lib/a.py:1)", "           │ step (lib/a.py:2)", "           │ … main (a.py:3)",
	}, h.Lines())
}

// Each case in the file has a line per rank, "STATE CPU [WAIT]: FRAME < FRAME", the innermost first, and ends with the
// verdict.
func TestVerdict(t *testing.T) {
	text, err := os.ReadFile("testdata/verdicts.txt")
	require.NoError(t, err)
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines, want, ok := strings.Cut(block, "\n= ")
		require.True(t, ok, block)
		var ranks []spec.Activity
		for line := range strings.SplitSeq(lines, "\n") {
			r := spec.Activity{Rank: len(ranks)}
			head, frames, _ := strings.Cut(line, ":")
			_, err := fmt.Sscan(head+" -", &r.State, &r.CPU, &r.Wait)
			require.NoError(t, err, line)
			if r.Wait == "store" {
				r.Keys = []string{"key"}
			}
			if r.Wait = strings.Trim(r.Wait, "-"); frames != "" {
				r.Stack = strings.Split(frames[1:], " < ")
			}
			ranks = append(ranks, r)
		}
		assert.Equal(t, strings.Trim(want, "-"), verdict(groupRanks(ranks)), lines)
	}
}

// The rank that others may wait for comes first, and the kernel's frames take one line.
func TestDescriptionOfActivity(t *testing.T) {
	futex := spec.Activity{
		State: "sleeping", Wait: "futex_do_wait", Stack: []string{"futex_do_wait (kernel)", "__x64_sys_futex (kernel)"},
	}
	asleep := spec.Activity{Rank: 1, State: "sleeping", Wait: "hrtimer_nanosleep"}
	assert.Equal(t, []string{
		"verdict  rank 1: sleeping for a set time; rank 0: waiting for a thread or connection",
		"[1]      sleeping in hrtimer_nanosleep, 0 % CPU", "[0]      sleeping in futex_do_wait, 0 % CPU",
		"         │ futex_do_wait < __x64_sys_futex (kernel)",
	}, DescribeActivity([]spec.Activity{futex, asleep}))
}

func TestHangInMPINamesWaits(t *testing.T) {
	var h Hang
	h.Ranks = []spec.Activity{
		{Rank: 0, State: "sleeping", CPU: -1, MPI: &spec.MPIWait{For: []int{3}, Init: true}},
		{Rank: 1, State: "sleeping", CPU: -1, MPI: &spec.MPIWait{For: []int{2, 3}}},
		{Rank: 2, State: "sleeping", CPU: -1, MPI: &spec.MPIWait{}},
		{Rank: 3, State: "sleeping", CPU: -1, MPI: &spec.MPIWait{Spawns: true}},
	}
	assert.Equal(t, []string{
		"  [0]      sleeping, waits in MPI_Init for rank 3", "  [1]      sleeping, waits in MPI for ranks [2-3]",
		"  [2]      sleeping, waits in MPI for ranks on other nodes",
		"  [3]      sleeping, waits in MPI_Comm_spawn for its new ranks",
	}, h.Lines()[1:])
}

func TestHangOfManyKindsIsReportedInFewLines(t *testing.T) {
	var h Hang
	for rank := range 500 {
		h.Ranks = append(h.Ranks,
			spec.Activity{Rank: rank, State: "sleeping", Stack: []string{string(rune('a' + rank)), "b", "c", "d"}})
	}
	lines := h.Lines()
	assert.LessOrEqual(t, len(lines), 20)
	assert.Equal(t, "  and 496 groups more (--report has all)", lines[len(lines)-1])
	h.NCCL = []string{"rank 3 is behind: 41 AllReduce, the others 42"}
	lines = h.Lines()
	assert.LessOrEqual(t, len(lines), 20)
	assert.Equal(t,
		[]string{"  and 497 groups more (--report has all)", "  NCCL: rank 3 is behind: 41 AllReduce, the others 42"},
		lines[len(lines)-2:])
}

// hungReport returns the whole report on n ranks that hang. The third rank, if any, differs from the others.
func hungReport(n int) string {
	h := Hang{Hang: spec.Hang{Quiet: Seconds(5 * time.Minute)}}
	for rank := range n {
		r := spec.Activity{
			Rank: rank, PID: 100 + rank, State: "sleeping", CPU: 1, Wait: "futex_do_wait", Keys: []string{"epoch/7"},
			LastLine: "epoch 7",
			Stack:    []string{"main.exchange (main.go:31) [chan receive]", "main.main (main.go:12)"},
		}
		if rank%2 == 1 {
			r.State, r.Wait = "running", "" // it has just woken up
		}
		if rank == 2 {
			r.Wait, r.Keys, r.LastLine, r.Stack = "unix_stream_read_generic", nil, "loading shard 2", nil
		}
		h.Ranks = append(h.Ranks, r)
	}
	r := Result{Cause: CauseHang, ExitCode: ExitTimeout, Hang: &h}
	return r.Report(name, false)
}

func TestReportOfAHang(t *testing.T) {
	const heading = "gorun: hang: no output and no rendezvous progress for 5m (--hang-timeout)\n"
	const odd = "  verdict  rank 2: waiting for a thread or connection; the other %d ranks: waiting in the store\n" +
		"  [2]      sleeping in unix_stream_read_generic, 1 %% CPU; last line: loading shard 2\n"
	const many = ` sleeping in futex_do_wait, 1 % CPU, waits in the store for "epoch/7"; last line: epoch 7
           │ main.exchange (main.go:31) [chan receive]
           │ main.main (main.go:12)
exit 124
`
	assert.Equal(t, heading+"  [0]     "+many, hungReport(1))
	assert.Equal(t, heading+fmt.Sprintf(odd, 3)+"  [0-1,3] "+many, hungReport(4))
	assert.Equal(t, heading+fmt.Sprintf(odd, 499)+"  [0-1,3-499]"+many, hungReport(500))
}

// The longest report has at most 25 lines, each of limited length.
func TestReportOfAHangOfManyKinds(t *testing.T) {
	for _, n := range []int{1, 4, 500} {
		h := Hang{Hang: spec.Hang{Quiet: Seconds(time.Minute)}}
		for rank := range n {
			long := strings.Repeat("x", 1000+rank%250)
			h.Ranks = append(h.Ranks, spec.Activity{
				Rank: rank, State: "sleeping", Wait: long, Keys: []string{long}, LastLine: long,
				Stack: []string{long, long, long, long, long},
			})
		}
		for range 9 {
			h.NCCL = append(h.NCCL, strings.Repeat("y", 1000))
		}
		r := Result{
			Cause: CauseHang, ExitCode: ExitTimeout, Hang: &h, Hint: "a hint", OutputLost: "a disk is full",
			Orphans:  []string{"x (pid 7, dead)", "y"},
			Attempts: make([]Attempt, 9), NCCL: manyWarnings(),
		}
		for i := range r.Attempts {
			r.Attempts[i].First = &Failure{}
		}
		lines := strings.Split(strings.TrimSuffix(r.Report(name, false), "\n"), "\n")
		assert.LessOrEqual(t, len(lines), 25, "%d ranks", n)
		for _, line := range lines {
			assert.Less(t, len([]rune(line)), 500)
		}
	}
}
