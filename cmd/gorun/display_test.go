package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
)

// Hydra prints a line for each host, Open MPI one for each rank.
func TestRanksAsOtherLaunchersListThem(t *testing.T) {
	p := &job.Plan{
		Apps:  []job.AppRun{{Path: "/bin/a"}, {Path: "/bin/b"}},
		Nodes: []job.Node{{Name: "n1", Ranks: []int{0, 2}}, {Name: "n2", Ranks: []int{1}}},
		Ranks: []job.Rank{
			{Process: job.Process{Rank: 0}},
			{Process: job.Process{Rank: 1, Node: 1}},
			{Process: job.Process{Rank: 2, App: 1}},
		},
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	ends := []job.RankEnd{
		{Rank: 0},
		{Rank: 1, Code: 137, Signal: syscall.SIGKILL},
		{Rank: 2, Code: 139, Signal: syscall.SIGSEGV, Core: true},
	}
	require.Equal(t, "[mpiexec@"+host+"] Exit codes: [n1] 0,139\n[n2] 9\n", exitCodes(p, ends))
	require.Equal(t, []string{
		"(rank, host, exe, pid) = (0, n1, /bin/a, 7)", "(rank, host, exe, pid) = (1, n2, /bin/a, 8)",
		"(rank, host, exe, pid) = (2, n1, /bin/b, 9)", "",
	}, strings.Split(processTable(p, []int{7, 8, 9}), "\n"))
}
