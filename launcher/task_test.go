package launcher_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/job"
)

func init() {
	roles["tail"] = func(r env.Rank) {
		fmt.Printf("half of %d's line", r.Rank)
		if r.Rank == 2 {
			fmt.Fprint(os.Stderr, "shard 2 is empty")
			os.Exit(9)
		}
		select {}
	}
	roles["wink"] = func(r env.Rank) { wink(r) }
}

// wink prints the signals that it receives until one ends it.
func wink(r env.Rank) {
	received := make(chan os.Signal, 8)
	signal.Notify(received, syscall.SIGUSR1, syscall.SIGTERM)
	fmt.Println("ready")
	for sig := range received {
		fmt.Println(r.Rank, "received", sig)
		if sig == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}

// tasks runs a job in which each process is one rank, all in this process. There are two hosts, and the first has
// every second rank.
func tasks(t *testing.T, role string, ranks int, edit func(rank int, s *launcher.Spec)) []*part {
	return together(t, role, ranks, func(rank int, s *launcher.Spec) {
		s.PerNode = job.Count{}
		s.Join.NodeRank, s.Join.NumNodes, s.Join.NodeID = 0, 0, fmt.Sprintf("n%d", rank%2)
		s.Join.Task = &job.Task{
			Rank: rank, NumRanks: ranks, LocalRank: rank / 2, LocalRanks: (ranks + 1 - rank%2) / 2,
			Node: rank % 2, NumNodes: min(ranks, 2),
		}
		if edit != nil {
			edit(rank, s)
		}
	})
}

func TestTasks(t *testing.T) {
	parts := tasks(t, "place", 5, nil)
	for rank, p := range parts {
		require.NoError(t, p.err, "rank %d", rank)
		require.Zero(t, p.result.ExitCode, "rank %d: %s", rank, p.notice.String())
		assert.Equal(t, fmt.Sprintf("rank %d of 5, local rank %d of %d on node %d of 2\n", rank, rank/2, 3-rank%2, rank%2),
			p.out.String(),
			"a process shows its own rank's output, and no other's")
		if rank > 0 {
			assert.Empty(t, p.notice.String())
		}
	}
}

func TestFailureEndsTasks(t *testing.T) {
	parts := tasks(t, "tail", 4, nil)
	for rank, p := range parts {
		require.NoError(t, p.err, "rank %d", rank)
		assert.Equal(t, 9, p.result.ExitCode, "rank %d", rank)
		assert.Equal(t, rank == 0, launcher.Explain(p.result) != "", "one report is enough where all write to one place")
		assert.True(t, strings.HasPrefix(fmt.Sprintf("half of %d's line", rank), p.out.String()), "rank %d: %q", rank,
			p.out.String())
	}
	assert.Equal(t, "half of 2's line", parts[2].out.String())
	assert.Equal(t, "shard 2 is empty", parts[2].notice.String())
	report := launcher.Explain(parts[0].result)
	assert.Contains(t, report, " (n0, pid ")
	assert.Contains(t, report, "shard 2 is empty")
}

func TestTaskConflicts(t *testing.T) {
	parts := tasks(t, "place", 2, func(rank int, s *launcher.Spec) { s.Join.Task.Node, s.Join.Task.LocalRanks = 0, 1 })
	require.ErrorContains(t, parts[0].err, "ranks 0 and 1 say both that they are local rank 0 on host 0")
	require.Equal(t, 2, parts[1].result.ExitCode)
}

// Signals from an engine that reaches all processes itself are not forwarded. Only those that end the job are,
// because a single process may have been signalled.
func TestEngineSignals(t *testing.T) {
	const ranks = 3
	var all [ranks]chan<- os.Signal
	var subscribed, done sync.WaitGroup
	subscribed.Add(ranks)
	parts, port := [ranks]part{}, freePort(t)
	for rank := range ranks {
		parts[rank].out.first = make(chan struct{})
		s := own(t, specOf("wink", 0))
		s.PerNode, s.Grace = job.Count{}, time.Minute
		s.Join = &job.JoinSpec{
			Addr: "127.0.0.1", Port: port, EngineSignals: true,
			Task: &job.Task{Rank: rank, NumRanks: ranks, LocalRank: rank, LocalRanks: ranks, NumNodes: 1},
		}
		done.Go(func() {
			p := &parts[rank]
			p.result, p.err = launcher.Run(t.Context(), s, with(withOutput(&p.out, &p.notice),
				withSignals(func(ch chan<- os.Signal) { all[rank] = ch; subscribed.Done() })))
		})
	}
	subscribed.Wait()
	for rank := range parts {
		<-parts[rank].out.first
	}
	for _, ch := range all {
		ch <- syscall.SIGUSR1
	}
	all[1] <- syscall.SIGTERM
	done.Wait()
	for rank := range parts {
		require.NoError(t, parts[rank].err)
		assert.Equal(t, 143, parts[rank].result.ExitCode)
		if rank == 0 {
			assert.Regexp(t,
				`^gorun: stopped by SIGTERM after \S+, as Slurm ends jobs \(scancel, a time limit, preemption\): srun says `+
					`which\nexit 143\n$`,
				launcher.Explain(parts[rank].result))
		}
		assert.Equal(t, fmt.Sprintf("ready\n%d received terminated\n", rank), parts[rank].out.String())
	}
}

func TestRestartOfTasks(t *testing.T) {
	parts := tasks(t, "flaky", 3, func(_ int, s *launcher.Spec) { s.Restarts = job.Restarts{Max: 2, Delay: -1} })
	for rank, p := range parts {
		require.NoError(t, p.err)
		require.Zero(t, p.result.ExitCode, p.notice.String())
		assert.Contains(t, p.out.String(), fmt.Sprintf("attempt 2: rank %d, found false\n", rank))
	}
}
