package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// intruder is a node that node 0 must refuse.
type intruder struct {
	host    string
	program string   // "": gorun
	options []string // in addition to those of the job
	without string   // a variable
	says    string   // on its own host
	notice  string   // message of node 0
}

// Node 0 refuses a node that does not belong to the job, both sides report why, and the job continues.
func TestNodesThatDoNotBelong(t *testing.T) {
	t.Parallel()
	a := rallyAt(t, 4)
	other, err := otherGorun()
	require.NoError(t, err)
	_, secret := a.token(t, "token")
	otherToken, _ := a.token(t, "other-token")
	line := func(program string, options ...string) []string {
		return slices.Concat([]string{program, "--nnodes", "3", "--master-addr", "h1"}, options,
			[]string{"sh", "-c", "echo rank $RANK"})
	}
	all := map[string]*running{}
	for node, host := range a.Hosts()[:2] {
		all[host] = a.on(host, line(built("gorun"), "--node-rank", fmt.Sprint(node), "--rdzv-id", "a")...).with(
			"GORUN_TOKEN=" + secret).start(t)
	}
	require.True(t,
		all["h1"].until(t, &all["h1"].stderr,
			"2 of 3 nodes have joined (node 0 h1, node 1 h2 (10.77.1.2)); missing: node rank [2]", 1))
	for _, c := range []intruder{
		{
			host: "h3", program: other, options: []string{"--node-rank", "2", "--rdzv-id", "a"},
			says:   "it runs gorun 99.0, node 0 runs gorun",
			notice: "refused node h3 at 10.77.1.3: it runs gorun 99.0, node 0 runs gorun",
		},
		{
			host: "h3", options: []string{"--nnodes", "4", "--node-rank", "2", "--rdzv-id", "a"},
			says:   "it expects 4 nodes, node 0 expects 3 (--nnodes)",
			notice: "refused node h3 at 10.77.1.3: it expects 4 nodes",
		},
		{
			host: "h4", options: []string{"--node-rank", "1", "--rdzv-id", "a"},
			says:   "two nodes have node rank 1: h2 (10.77.1.2) joined first, then h4 (10.77.1.4)",
			notice: "refused node h4 at 10.77.1.4: two nodes have node rank 1: h2 (10.77.1.2) joined first, then h4 (10.77.1.4)",
		},
		{
			host: "h4", options: []string{"--node-rank", "0", "--rdzv-id", "a", "--rdzv-conf", "timeout=1"},
			says: "1 of 3 nodes have joined (node 0 h4); missing: node rank [1-2]; h1 is not an address of this " +
				"host: does --node-rank 0 belong to another host?\n",
		},
		{
			host: "h3", options: []string{"--node-rank", "2", "--rdzv-id", "b"},
			says:   `it belongs to job "b", node 0 to job "a" (--rdzv-id)`,
			notice: `: it belongs to job "b", node 0 to job "a"`,
		},
		{
			host: "h4", options: []string{"--node-rank", "2", "--rdzv-id", "a", "--insecure-join"}, without: "GORUN_TOKEN",
			says:   "node 0 requires a token: give this node the same token (--token-file, GORUN_TOKEN, or",
			notice: "refused a node at 10.77.1.4: node 0 requires a token",
		},
		{
			host: "h4", options: []string{"--node-rank", "2", "--rdzv-id", "a", "--token-file", otherToken},
			says:   "its token differs from this node's (--token-file, GORUN_TOKEN)",
			notice: "refused a node at 10.77.1.4: its token differs from node 0's",
		},
	} {
		program := c.program
		if program == "" {
			program = built("gorun")
		}
		j := a.on(c.host, line(program, c.options...)...)
		if c.without == "" {
			j = j.with("GORUN_TOKEN=" + secret)
		}
		got := j.run(t)
		assert.Equal(t, 125, got.code, "%v: %s", c.options, got.stderr)
		assert.Contains(t, got.stderr, c.says)
		require.True(t, all["h1"].until(t, &all["h1"].stderr, c.notice, 1))
	}
	all["h3"] = a.on("h3", line(built("gorun"), "--node-rank", "2", "--rdzv-id", "a")...).with("GORUN_TOKEN=" +
		secret).start(t)
	came := results(t, all, 0)
	assert.Len(t, strings.Fields(came["h1"].stdout), 6)
	for host, got := range came {
		assert.NotContains(t, got.stdout+got.stderr, secret, host)
	}
}

// A real torchrun that connects changes nothing, and gorun reports it.
func TestTorchrunDialsIn(t *testing.T) {
	t.Parallel()
	torchrun := filepath.Join(filepath.Dir(testneeds.Torch(t)), "torchrun")
	a := rallyAt(t, 3)
	all := map[string]*running{"h1": a.on("h1", built("gorun"), "--nnodes", "2", "--rdzv-id", "100", "--rdzv-backend",
		"c10d", "--rdzv-endpoint", "h1:29400", "hostname").with(knownToken).start(t)}
	theirs := a.on("h3", torchrun, "--nnodes", "2", "--rdzv-id", "100", "--rdzv-backend", "c10d", "--rdzv-endpoint",
		"h1:29400",
		"--rdzv-conf", "read_timeout=1,join_timeout=1", "--log-dir", os.DevNull, "--no-python", "/bin/true").start(t)
	const report = "a PyTorch client connected from 10.77.1.3, where this job has no ranks: torchrun, or a script " +
		"without a launcher; start gorun there as on this node\n"
	require.True(t, all["h1"].until(t, &all["h1"].stderr, report, 1))
	all["h2"] = a.on("h2", built("gorun"), "--nnodes", "2", "--rdzv-id", "100", "--rdzv-backend", "c10d",
		"--rdzv-endpoint", "h1:29400", "hostname").with(knownToken).start(t)
	came := results(t, all, 0)
	assert.ElementsMatch(t, []string{"h1", "h2"}, strings.Fields(came["h1"].stdout))
	assert.Equal(t, 1, strings.Count(came["h1"].stderr, "PyTorch client"), came["h1"].stderr)
	left, err := a.Processes("h3")
	require.NoError(t, err)
	for _, p := range left { // it would keep trying
		require.NoError(t, a.Signal("h3", p, syscall.SIGKILL))
	}
	require.NotZero(t, theirs.wait(t).code)
}

// junk is input that a port scanner or a broken client may send.
var junk = []string{
	"", "\n", "GET / HTTP/1.1\r\nHost: h1\r\n\r\n", "SSH-2.0-scan\r\n", "\x16\x03\x01",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "gorun", "gorun\x02\xff\xff\xff\xff",
	"gorun\x02\x02\x00\x00\x00{}", "\x00\xce\xf7\x85\x3c", "\x00\xce\xf7\x85\x3c\xff\xff\xff\xff\xff\xff",
	"\x03\x05\x00\x00\x00init/", strings.Repeat("\x00", 300),
}

// runVirtualMachines sends all of it, closes half of the connections and prints a line. It holds the other connections
// until its input ends.
func runVirtualMachines() int {
	const connections = 130
	var open []net.Conn
	for i := range connections {
		c, err := net.Dial("tcp", os.Getenv("INTEROP_PIPE"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_, _ = c.Write([]byte(junk[i%len(junk)])) // it may be closed already
		switch i / len(junk) % 3 {
		case 0:
			_ = c.Close()
		case 1:
			_ = c.(*net.TCPConn).CloseWrite()
			open = append(open, c)
		default:
			open = append(open, c)
		}
	}
	fmt.Println("said")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = open
	return 0
}

// Unknown clients at the join port, before and during the job, change nothing. The token is in no file and in no
// process but gorun.
func TestUnknownPeersAtTheJoinPort(t *testing.T) {
	t.Parallel()
	a := rallyAt(t, 3)
	_, secret := a.token(t, "token")
	logs, report := filepath.Join(a.Dir(), "logs"), filepath.Join(a.Dir(), "report.json")
	release := filepath.Join(a.Dir(), "release")
	require.NoError(t, syscall.Mkfifo(release, 0o600))
	pipe, err := os.OpenFile(release, os.O_RDWR, 0)
	require.NoError(t, err)
	defer pipe.Close()
	line := func(host string) job {
		return a.on(host, built("gorun"), "--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "h1", "--log-dir",
			logs, "--tee", "3", "--report", report+host, "-v",
			"sh", "-c", `env; echo at work; read line <>"$RELEASE"`).with("GORUN_TOKEN="+secret, "RELEASE="+release)
	}
	hold, holder, err := os.Pipe()
	require.NoError(t, err)
	defer holder.Close()
	virtualMachines := func() *running {
		j := a.on("h3", self(t)).with(roleVariable+"=junk", "INTEROP_PIPE=10.77.1.1:29500")
		j.stdin = hold
		r := j.start(t)
		require.True(t, r.until(t, &r.stdout, "said", 1), "%s", r.stderr.String())
		return r
	}
	all := map[string]*running{"h1": line("h1").start(t)}
	require.True(t, all["h1"].until(t, &all["h1"].stderr, "waits at", 1))
	early := virtualMachines()
	all["h2"] = line("h2").start(t)
	require.True(t, all["h1"].until(t, &all["h1"].stdout, "at work\n", 4), "%s", all["h1"].stderr.String())
	late := virtualMachines()
	a.nobodyKnows(t, secret)
	_, err = pipe.WriteString("\n\n\n\n") // each rank reads one line
	require.NoError(t, err)
	came := results(t, all, 0)
	require.NoError(t, holder.Close())
	require.Zero(t, early.wait(t).code)
	require.Zero(t, late.wait(t).code)
	assert.Less(t, strings.Count(came["h1"].stderr, "unknown peer"), 4, came["h1"].stderr)
	for host, got := range came {
		assert.NotContains(t, got.stdout+got.stderr, secret, host)
		text, err := os.ReadFile(report + host)
		if err == nil {
			assert.NotContains(t, string(text), secret)
		}
	}
	out, _ := exec.Command("grep", "-rlF", secret, logs).CombinedOutput()
	assert.Empty(t, string(out))
}

// nobodyKnows checks the arguments and environments of all processes of the hosts for the secret. gorun itself may
// have it.
func (a rally) nobodyKnows(t *testing.T, secret string) {
	t.Helper()
	seen := 0
	for _, host := range a.Hosts() {
		all, err := a.Processes(host)
		require.NoError(t, err)
		for _, p := range all {
			assert.NotContains(t, strings.Join(p.Args, " "), secret, "%s: %s", host, p)
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
			if err != nil || len(p.Args) > 1 && p.Args[0] == built("gorun") && p.Args[1] == "--nnodes" {
				continue
			}
			seen++
			assert.NotContains(t, string(environ), secret, "%s: %s", host, p)
		}
	}
	assert.Greater(t, seen, 4)
}
