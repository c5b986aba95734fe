package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/comm"
	"gorun/internal/bench"
	"gorun/internal/testneeds"
)

// even are figures of a peer whose batches all took as long.
func even(us float64) *figures { return &figures{probe: steady(), Samples: []sample{{Micros: us}}} }

func hostRow(operation string, bytes, each int, times map[string]float64) *row {
	r := &row{Ranks: 2 * each, Each: each, Operation: operation, Bytes: bytes, Figures: map[string]*figures{}}
	for name, us := range times {
		r.Figures[name] = even(us)
	}
	return r
}

func TestVerdictsBetweenHosts(t *testing.T) {
	for _, c := range []struct {
		operation   string
		bytes, each int
		times       map[string]float64
		want        string
	}{
		{"allreduce", 4, 1, map[string]float64{ours: 11, mpich: 10, openMPI: 5}, "ok"},
		{"allreduce", 4, 1, map[string]float64{ours: 12, mpich: 10}, "≤ 1.15 × MPICH: miss"},
		{"barrier", 0, 1, map[string]float64{ours: 12, openMPI: 10}, "≤ 1.15 × MPICH: no figure"},
		{"allreduce", 64 * kib, 1, map[string]float64{ours: 99, mpich: 1}, ""},
		{"sendrecv", mib, 1, map[string]float64{ours: 100, raw: 80, gloo: 91}, "ok"},
		{"sendrecv", mib, 1, map[string]float64{ours: 101, raw: 80, gloo: 90}, "≥ 80 % of raw TCP: miss; ≤ 1.1 × the best: miss"},
		{"barrier", 0, 2, map[string]float64{ours: 20, openMPI: 10, mpich: 9000}, "ok"},
		{"allreduce", 64 * mib, 2, map[string]float64{ours: 21, openMPI: 10}, "≤ 2 × the best: miss"},
	} {
		require.Equal(t, c.want, judgeHosts(hostRow(c.operation, c.bytes, c.each, c.times)), "%+v", c)
	}
}

func TestHostsTable(t *testing.T) {
	table := hostsTable([]*row{
		hostRow("pingpong", 4, 1, map[string]float64{ours: 9, mpich: 10, raw: 12}),
		hostRow("pingpong", mib, 1, map[string]float64{ours: 1024, mpich: 2048, raw: 512}),
	})
	require.Equal(t, []string{
		"1", "pingpong", "4", "9.00 / 9.00", "-", "10.0 / 10.0", "-", "12.0 / 12.0", "0.90", "0.90", "0.90", "0.75", "≤ 1.15 × MPICH", "ok",
	}, table.Rows[0][:14])
	require.Equal(t, []string{
		"raw TCP: 4 bytes there and back in 12.0 / 12.0 µs", "raw TCP: 1 MiB at 4.10 GB/s one way (median 4.10), comm 2.05 (2.05)",
	}, table.Notes)
}

func TestStrangersHaveTheirTarget(t *testing.T) {
	r := &row{Ranks: 4, Stranger: true, Operation: "allreduce", Bytes: 8}
	require.Equal(t, "≤ 1", goalOf(r, false).String())
	require.Equal(t, "allreduce, allocated, a stranger on one CPU", r.title(allocated))
	require.Equal(t, "4 ranks and a stranger", scene{ranks: 4, stranger: &stranger{}}.String())
	require.Equal(t, "2 hosts of 2 ranks", scene{ranks: 4, each: 2}.String())
}

func TestMembersAreToldWhoTheyAre(t *testing.T) {
	s := spread{each: 2, key: strings.Repeat("ab", 32)}
	for _, rank := range []int{0, 3} {
		text, found := strings.CutPrefix(s.member(rank)[0], memberVariable+"=")
		require.True(t, found)
		options, err := parseMember(text)
		require.NoError(t, err)
		require.Len(t, options, 3)
	}
	options, err := parseMember("")
	require.NoError(t, err)
	require.Empty(t, options, "a launcher told it")
	for _, text := range []string{"0 2", "0 2 host:1 xyz"} {
		_, err := parseMember(text)
		require.ErrorContains(t, err, text)
	}
	one, err := parseMember("0 1 127.0.0.1:1 00")
	require.NoError(t, err)
	g, err := comm.Join(t.Context(), append(one, comm.WithKey(nil))...)
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

// The shell that MPI's launchers call understands what ssh does; here it would enter the namespaces of this very process.
func TestRemoteShellFindsHosts(t *testing.T) {
	self := &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}
	n := &namespaces{holders: [2]*exec.Cmd{self, self}, cpus: []int{3, 5}}
	text := n.remoteShell(1)
	require.Contains(t, text, "10.213.78.2) exec nsenter -t "+n.inside(1)[2]+" -n -m -u -- taskset -c 5 /bin/sh -c")
	require.NotContains(t, n.remoteShell(2), "taskset", "four ranks have no CPU each")
	said, err := exec.Command("/bin/sh", "-c", text, "shell", "-x", "elsewhere", "true").CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "elsewhere is none of the two hosts\n", string(said))
}

const overlapSaid = `2 ranks with 1 CPUs each; 16 layers of 1.0 MB, 5 buckets
  compute alone                89.34 ms
  communication alone           8.72 ms
  before: one after another   143.80 ms a step
  after: overlapped           102.70 ms a step
overlapped takes 0.79 of the time, and 1.27 of the longer of both (89.34 ms), the best possible
`

func TestOverlapIsReadAndJudged(t *testing.T) {
	o, err := parseOverlap(overlapSaid)
	require.NoError(t, err)
	require.Equal(t, overlap{Compute: 89.34, Communication: 8.72, Sequence: 143.8, Overlapped: 102.7}, o)
	_, err = parseOverlap("overlap: no group")
	require.ErrorContains(t, err, "no group")
	o.Ranks = 2
	for _, c := range []struct {
		elsewhere bool
		cpus      int
		target    string
		want      bench.Verdict
	}{
		{false, 2, "faster than the sequence", bench.OK},
		{false, 4, "≤ 1.15 × the longer", bench.OK},
		{true, 2, "≤ 1.15 × the longer", bench.OK},
		{true, 1, "faster than the sequence", bench.OK},
	} {
		o.Elsewhere = c.elsewhere
		target, verdict := o.judge(c.cpus)
		require.Equal(t, c.target, target, "%+v", c)
		require.Equal(t, c.want, verdict, "%+v", c)
	}
	o.Overlapped = 150
	_, verdict := o.judge(2)
	require.Equal(t, bench.Miss, verdict)
	require.Equal(t, []string{"2", "elsewhere, as on GPUs", "89.3", "8.72", "144", "150"}, overlapTable([]overlap{o}).Rows[0][:6])
}

func TestFoldersOfDeadRunsAreRemoved(t *testing.T) {
	in := t.TempDir()
	alive, release, err := newFolder(in)
	require.NoError(t, err)
	dead := filepath.Join(in, "comm-bench-1")
	stranger := filepath.Join(in, "comm-bench-2") // without claim: nobody knows whose it is
	for _, dir := range []string{dead, stranger} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dead, claim), nil, 0o600))
	second, releaseSecond, err := newFolder(in)
	require.NoError(t, err)
	require.NoDirExists(t, dead)
	for _, dir := range []string{alive, second, stranger} {
		require.DirExists(t, dir)
	}
	release()
	releaseSecond()
	require.NoDirExists(t, alive)
	require.NoDirExists(t, second)
}

// runForAWhile is a run that has a folder in the given one and a program whose own launcher has ended; it says its id.
func runForAWhile(in string) error {
	end := newCustodian()
	defer end.close()
	_, release, err := newFolder(in)
	if err != nil {
		return err
	}
	end.finally(release)
	orphan, err := exec.Command("/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(orphan); err != nil {
		return err
	}
	select {}
}

// A run that a signal ends takes its programs and its folder with it.
func TestSignalsLeaveNothing(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	in := t.TempDir()
	run := exec.Command(binary, asRun, in)
	run.Stderr = os.Stderr
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	defer run.Process.Kill()
	pid, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	process := filepath.Join("/proc", strings.TrimSpace(pid))
	require.DirExists(t, process)
	require.NoError(t, run.Process.Signal(os.Interrupt))
	require.ErrorContains(t, run.Wait(), "exit status 130")
	if state, err := os.ReadFile(filepath.Join(process, "stat")); err == nil {
		require.Contains(t, string(state), ") Z ", "it may only wait for init to ask for its status")
	}
	left, err := os.ReadDir(in)
	require.NoError(t, err)
	require.Empty(t, left)
}

// layerNamespaces is the right to make namespaces, and the programs ip and nsenter.
const layerNamespaces testneeds.Layer = "namespaces"

func TestHostsAreMadeAndGone(t *testing.T) {
	testneeds.Root(t)
	testneeds.Program(t, layerNamespaces, "ip")
	testneeds.Program(t, layerNamespaces, "nsenter")
	binary, err := os.Executable()
	require.NoError(t, err)
	n, err := newNamespaces(binary)
	if err != nil && strings.Contains(err.Error(), "not permitted") {
		testneeds.Skip(t, layerNamespaces, err.Error())
	}
	require.NoError(t, err)
	for host := range n.holders {
		argv := n.inside(host, "sh", "-c", "uname -n; ls /sys/class/net; ip -brief address show dev "+device)
		said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Regexp(t, `^bench`+fmt.Sprint(host)+`\nbench0\nlo\nbench0@\S+ +UP +`+hostAddress(host)+`/24`, string(said))
	}
	n.close()
	for _, holder := range n.holders {
		require.NotNil(t, holder.ProcessState, "it has ended")
	}
}
