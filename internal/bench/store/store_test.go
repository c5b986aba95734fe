package main

import (
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/bench"
	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// TestMain lets this test binary be what under starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "-names" {
		log.Fatal(execWith(os.Args[2], os.Args[4:]))
	}
	os.Exit(m.Run())
}

// testRun has gorun's store, in this process, on both sides.
func testRun(t *testing.T) *run {
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	t.Chdir(testneeds.Repository(t))
	self, err := os.Executable()
	require.NoError(t, err)
	programs, err := bench.FindPrograms(self, bench.Sanitized...)
	require.NoError(t, err)
	t.Cleanup(programs.Close)
	store, err := tcpstore.Listen(tcpstore.Config{Logf: func(format string, args ...any) { t.Errorf(format, args...) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	process, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	s := &server{name: "test", addr: store.Addr()}
	s.command = under(namesAsHere, []string{self})
	s.command.Process = process
	return &run{programs: programs, pair: pair{s, s}, report: newReport()}
}

func TestEveryModeOfStoreload(t *testing.T) {
	r := testRun(t)
	at := []string{"-s", r.pair[0].spec(), "-c", "5"}

	ops, err := r.load("ops", append(at, "-s", r.pair[1].spec(), "-r", "2", "-w", "1", "-n", "50")...)
	require.NoError(t, err)
	require.Len(t, ops, 5*2*2, "operations, rounds, servers")
	for i, one := range ops {
		require.GreaterOrEqual(t, one.Operations, 50.0)
		require.Positive(t, one.Seconds)
		require.GreaterOrEqual(t, one.CPU, 0.0, "the kernel counts a running thread's time at each tick")
		require.Equal(t, []int{0, 1, 1, 0}[i%4], one.Server, "who begins changes with the round")
	}
	for _, mode := range []string{"join", "fanout"} {
		all, err := r.load(mode, append(at, "-n", "3", "-b", "300000")...)
		require.NoError(t, err)
		require.Equal(t, 5, all[0].Clients)
		require.Positive(t, all[0].Seconds)
	}
	tail, err := r.load("tail", append(at, "-t", "5")...)
	require.NoError(t, err)
	require.Positive(t, tail[0].Samples)
	require.LessOrEqual(t, tail[0].P50, tail[0].P99)
}

func TestStoreloadNamesWhatIsWrong(t *testing.T) {
	r := testRun(t)
	for _, args := range [][]string{{"ops"}, {"walk", "-s", "127.0.0.1:1"}, {"ops", "-s", "nowhere"}, {"ops", "-s", "127.0.0.1:1", "-c", "0"}} {
		_, err := r.load(args[0], args[1:]...)
		require.ErrorContains(t, err, "exit status 2", "%v", args)
	}
	_, err := r.load("ops", "-s", r.pair[0].spec(), "-o", "walk")
	require.ErrorContains(t, err, "exit status 1")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	_, err = r.load("ops", "-s", gone.Addr().String())
	require.ErrorContains(t, err, "exit status 1")
}

func TestServersThatSayNoAddress(t *testing.T) {
	_, err := startServer("echo", namesAsHere, "/bin/echo", "usage: something")
	require.ErrorContains(t, err, `it said "usage: something"`)
	s, err := startServer("echo", namesAsHere, "/bin/echo", "127.0.0.1:99 1.5")
	require.NoError(t, err)
	require.Equal(t, uint16(99), s.addr.Port())
	require.Equal(t, 1.5, s.opening)
	s.end()
}

func TestNamesAreCovered(t *testing.T) {
	testneeds.Root(t)
	said, err := under(namesFromFiles, []string{"/bin/cat", "/etc/nsswitch.conf"}).Output()
	require.NoError(t, err)
	require.Equal(t, "hosts: files\n", string(said))
	said, err = under(namesAsHere, []string{"/bin/echo", "here"}).Output()
	require.NoError(t, err)
	require.Equal(t, "here\n", string(said))
	require.ErrorContains(t, cover(filepath.Join(t.TempDir(), "missing"), ""), "mount over")
}

func TestTargets(t *testing.T) {
	rate := figures{of: [2][]float64{{110, 90, 100}, {100, 100, 80}}, more: true}
	require.Equal(t, []float64{110, 100, 100, 100}, []float64{rate.best(0), rate.median(0), rate.best(1), rate.median(1)})
	require.Equal(t, 1.1, rate.paired())
	target, verdict := goals{ratio: 1.05}.target(&rate)
	require.Equal(t, "≥ 1.05", target)
	require.Equal(t, string(bench.MinOnly), verdict)
	least := figures{of: [2][]float64{{2}, {4}}}
	_, verdict = goals{ratio: 0.5}.target(&least)
	require.Equal(t, string(bench.OK), verdict)
	_, verdict = goals{most: 1}.target(&least)
	require.Equal(t, string(bench.Miss), verdict)

	r := run{report: newReport()}
	r.row("x", "s", least, figures{}, goals{ratio: 0.5})
	r.row("y", "s", figures{}, figures{}, goals{ratio: 0.5})
	require.Equal(t, "x s 2.00 2.00 4.00 4.00 0.50 0.50 ≤ 0.5 ok", strings.TrimSpace(strings.Join(r.report.Rows[0], " ")))
	require.Contains(t, r.report.Rows[1], string(bench.NoFigure))
}
