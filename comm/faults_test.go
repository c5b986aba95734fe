package comm_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/testneeds"
)

// process is a rank that runs this test binary.
type process struct {
	rank   int
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// start starts the ranks of a job and waits until all are ready. It kills remaining ranks at the end of the test.
func start(t *testing.T, role string, n int, p place) []*process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p.Size, p.Store = n, store(t)
	ranks := make([]*process, n)
	for rank := range ranks {
		p.Rank = rank
		text, err := json.Marshal(p)
		require.NoError(t, err)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleVariable+"="+role, placeVariable+"="+string(text))
		cmd.Stderr = os.Stderr
		ranks[rank] = run(t, rank, cmd)
	}
	for _, r := range ranks {
		line, err := r.output.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	return ranks
}

func run(t *testing.T, rank int, cmd *exec.Cmd) *process {
	t.Helper()
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{rank, cmd, input, bufio.NewReader(output)}
}

func (p *process) say(t *testing.T, word string) {
	_, err := io.WriteString(p.input, word+"\n")
	require.NoError(t, err)
}

func (p *process) outcome(t *testing.T) (o outcome) {
	t.Helper()
	line, err := p.output.ReadString('\n')
	require.NoError(t, err, "rank %d", p.rank)
	require.NoError(t, json.Unmarshal([]byte(line), &o), "%s", line)
	return o
}

// limit is the timeout of groups with a stopped or late rank. It is long enough for the other ranks to arrive on a busy
// machine.
const limit = 2 * time.Second

// processLimit is limit for ranks in processes of their own. It includes the time to start and to join.
const processLimit = 6 * time.Second

// fault is a failure of one rank.
type fault struct {
	call       string
	count      int
	what       string // "kill", "stop", "delay"
	n, victim  int
	spread     bool          // each rank on its own host
	afterCalls time.Duration // delay from the start of all ranks to the fault
}

func (f fault) String() string {
	hosts := 1
	if f.spread {
		hosts = f.n
	}
	return fmt.Sprintf("%s of %d elements, %d ranks on %d hosts: %s rank %d after %v", f.call, f.count, f.n, hosts,
		f.what, f.victim, f.afterCalls)
}

// faults returns all faults in random order.
func faults(r *rand.Rand) (all []fault) {
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		for _, count := range []int{1, 100_000} {
			for _, what := range []string{"kill", "stop", "delay"} {
				for n := 2; n <= 4; n++ {
					for victim := range 2 * n {
						after := time.Duration(r.IntN(20_000)) * time.Microsecond
						all = append(all, fault{call, count, what, n, victim % n, victim >= n, after})
					}
				}
			}
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// One rank is killed, stopped or late while all ranks make one kind of call. Every other rank names it and leaves no
// resources behind.
func TestFaults(t *testing.T) {
	all := faults(testneeds.Rand(t))
	before := shm(t)
	t.Run("each", func(t *testing.T) {
		for _, f := range all[:testneeds.Count(18, len(all))] {
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				happens(t, f)
			})
		}
	})
	require.Equal(t, before, shm(t))
}

func happens(t *testing.T, f fault) {
	p := place{Call: f.call, Count: f.count, Timeout: processLimit, Spread: f.spread}
	if f.what == "kill" {
		p.Timeout = patience
	}
	ranks := start(t, "loop", f.n, p)
	for _, r := range ranks {
		word := "go"
		if r.rank == f.victim && f.what == "delay" {
			word = "late"
		}
		r.say(t, word)
	}
	victim := ranks[f.victim].cmd.Process
	timer := time.NewTimer(f.afterCalls) // the time is random: no event triggers the fault
	<-timer.C
	switch f.what {
	case "kill":
		require.NoError(t, victim.Signal(syscall.SIGKILL))
	case "stop":
		require.NoError(t, victim.Signal(syscall.SIGSTOP))
	}
	for _, r := range ranks {
		if r.rank == f.victim {
			continue
		}
		o := r.outcome(t)
		if f.what == "kill" {
			require.Equal(t, f.victim, o.Lost, "rank %d: %s", r.rank, o.Text)
		} else {
			require.Equal(t, []int{f.victim}, o.Late, "rank %d: %s", r.rank, o.Text)
		}
		require.True(t, o.Clean)
		require.Empty(t, o.Left, "rank %d", r.rank)
		require.NoError(t, r.cmd.Wait())
	}
}

// The root of small calls over hosts does not wait, and the kernel accepts data for a stuck rank. The error still names
// this rank.
func TestRootMissesAStuckRankOfAnotherHost(t *testing.T) {
	for _, call := range []string{"Broadcast", "Scatter"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			happens(t, fault{call: call, count: 1, what: "stop", n: 3, victim: 2, spread: true})
		})
	}
}

// shm lists the files in /dev/shm, where a group could leave some.
func shm(t *testing.T) (names []string) {
	files, err := os.ReadDir("/dev/shm")
	require.NoError(t, err)
	for _, file := range files {
		if strings.Contains(file.Name(), "gorun-comm") {
			names = append(names, file.Name())
		}
	}
	return names
}

// A stopped rank that continues gets an error, because the others gave it up.
func TestStoppedRankGoesOn(t *testing.T) {
	ranks := start(t, "loop", 3, place{Call: "AllReduce", Count: 1000, Timeout: processLimit})
	for _, r := range ranks {
		r.say(t, "go")
	}
	require.NoError(t, ranks[1].cmd.Process.Signal(syscall.SIGSTOP))
	require.Equal(t, []int{1}, ranks[0].outcome(t).Late)
	require.Equal(t, []int{1}, ranks[2].outcome(t).Late)
	require.NoError(t, ranks[1].cmd.Process.Signal(syscall.SIGCONT))
	require.Equal(t, []int{1}, ranks[1].outcome(t).Late)
}

// A process that exits after its last call without Close causes no error for results that are complete.
func TestExitAfterTheLastCall(t *testing.T) {
	names := slices.Sorted(maps.Keys(calls))
	r := testneeds.Rand(t)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, call := range names[:testneeds.Count(6, len(names))] {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			ranks := start(t, "last", 3, place{Call: call, Count: 20_000, Timeout: patience})
			ranks[1].say(t, "go")
			ranks[0].say(t, "go")
			ranks[2].say(t, "go")
			for _, rank := range []int{0, 2} {
				o := ranks[rank].outcome(t)
				require.Empty(t, o.Text, "rank %d", rank)
				require.Empty(t, o.Left, "rank %d", rank)
			}
		})
	}
}

// The error names a rank that dies while the ranks join.
func TestDeathDuringJoin(t *testing.T) {
	address := store(t)
	failed := make(chan error, 2)
	for rank := range 2 {
		go func() {
			_, err := comm.Join(t.Context(), comm.WithRank(rank, 3), comm.WithStore(address), comm.WithName("dying"),
				comm.WithTimeout(limit))
			failed <- err
		}()
	}
	for range 2 {
		require.ErrorContains(t, errors.Join(<-failed), "rank 2 did not come: ")
	}
}

// Ranks in separate processes get the same results as ranks in one process, and leave no resources behind.
func TestProcesses(t *testing.T) {
	r := testneeds.Rand(t)
	for _, n := range []int{2, 5} {
		ranks := start(t, "drawn", n, place{Count: testneeds.Count(100, 5000), Seed: r.Uint64(), Timeout: patience})
		for _, p := range ranks {
			p.say(t, "go")
		}
		for _, p := range ranks {
			o := p.outcome(t)
			require.Empty(t, o.Text, "rank %d", p.rank)
			require.Empty(t, o.Left, "rank %d", p.rank)
			require.NoError(t, p.cmd.Wait())
		}
	}
}
