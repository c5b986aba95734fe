package gather

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts/engine"
	"gorun/launcher/internal/reach/join"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gathering starts a command that prints nothing. The test itself dials as the agents, with the invitation. wait waits
// for them as Start does.
func gathering(t *testing.T, nodes ...string) (wait func() ([]net.Conn, error), i *Invitation, arrivals <-chan bool) {
	t.Helper()
	arrived := make(chan bool, 8)
	cfg := &Config{
		// until standard input ends
		Start: engine.Start{Once: []string{"/bin/sh", "-c", "read -r line; read -r end; exit 0"}},
		Agent: []string{"sh"}, Nodes: nodes, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Timeout: time.Minute,
		Version: "v",
		Arrived: func(_ int, a bool) { arrived <- a }, Detail: func(string) {},
	}
	a, err := newAttempt(context.Background(), cfg, false, func(message) {})
	require.NoError(t, err)
	settled := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(settled)
		conns, err = a.wait()
	}()
	i = &Invitation{
		Token: a.token, Addrs: cfg.Addrs, Port: int(a.head.Addr().Port()), NumNodes: cfg.numNodes(), Within: time.Minute,
		NodeIDs: []string{"NODE"},
	}
	t.Cleanup(func() {
		_ = a.command.In.Close()
		a.command.end(EndLimit)
		<-settled
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return func() ([]net.Conn, error) { <-settled; return conns, err }, i, arrived
}

// dial connects an agent of a node.
func dial(t *testing.T, i *Invitation, node string) (net.Conn, error) {
	t.Helper()
	conn, err := Dial(t.Context(), i, nil, func(name string) (string, bool) { return node, name == "NODE" })
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func TestUnauthenticatedConnections(t *testing.T) {
	r := testneeds.Rand(t)
	wait, i, _ := gathering(t, "n1")
	where := netip.AddrPortFrom(i.Addrs[0], uint16(i.Port)).String()
	for range testneeds.Count(50, 500) {
		c, err := net.Dial("tcp", where)
		require.NoError(t, err)
		garbage := make([]byte, r.IntN(300))
		for j := range garbage {
			garbage[j] = byte(r.IntN(256))
		}
		if r.IntN(2) == 0 && len(garbage) > 2 {
			copy(garbage, "\x16\x03\x01")
		}
		_, _ = c.Write(garbage) // or the launcher has closed it
		if r.IntN(2) == 0 {
			c.Close()
		} else {
			t.Cleanup(func() { c.Close() })
		}
	}
	other := *i
	other.Token, other.Within = bytes.Repeat([]byte("x"), 32), 100*time.Millisecond
	_, err := dial(t, &other, "n1")
	require.ErrorContains(t, err, "cannot reach the launcher")
	require.NoError(t, dialAs(t, i, "n1", "v"))
	_, err = wait()
	require.NoError(t, err)
}

// dialAs connects an agent with a made-up version.
func dialAs(t *testing.T, i *Invitation, node, version string) error {
	t.Helper()
	joined, err := i.dial(t.Context(), join.Hello{Version: version, NodeID: node, NumNodes: i.NumNodes, NodeRank: -1}, nil)
	if err == nil {
		t.Cleanup(func() { _ = joined.Conn.Close() })
	}
	return err
}

// Connections are in the order of nodes, whoever dialed first; an agent that hung up may dial again.
func TestAgentsInAnyOrder(t *testing.T) {
	wait, i, arrived := gathering(t, "n1", "n2")
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		_, err := i.dial(ctx, join.Hello{Version: "v", NodeID: "n2", NumNodes: i.NumNodes, NodeRank: -1}, nil)
		lost <- err
	}()
	require.True(t, <-arrived)
	cancel()
	require.ErrorContains(t, <-lost, "not all agents connected in time")
	require.False(t, <-arrived)
	again := make(chan error, 1)
	go func() { again <- dialAs(t, i, "n2", "v") }()
	require.True(t, <-arrived)
	require.NoError(t, dialAs(t, i, "n1", "v"))
	require.NoError(t, <-again)
	conns, err := wait()
	require.NoError(t, err)
	require.Len(t, conns, 2)
	require.NotEqual(t, conns[0], conns[1])
}

func TestAnotherVersionIsRefused(t *testing.T) {
	wait, i, _ := gathering(t, "n1")
	require.ErrorContains(t, dialAs(t, i, "n1", "w"), "gorun on n1 is version w, this one is v")
	_, err := wait()
	require.ErrorContains(t, err, "version w")
}

func TestInvitationFileIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "gorun")
	i := &Invitation{
		Protocol: join.Protocol, Token: make([]byte, 32), NumNodes: 2, Addrs: []netip.Addr{netip.IPv6Loopback()}, Port: 1,
	}
	line, err := i.line()
	require.NoError(t, err)
	name, remove, err := writeFile(dir, line)
	require.NoError(t, err)
	for path, want := range map[string]os.FileMode{name: 0o600, filepath.Dir(name): os.ModeDir | 0o700} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode())
	}
	back, err := ReadInvitationFile(name)
	require.NoError(t, err)
	assert.Equal(t, i, back)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(name, link))
	_, err = ReadInvitationFile(link)
	require.Error(t, err)
	require.NoError(t, os.Chmod(name, 0o640))
	_, err = ReadInvitationFile(name)
	require.ErrorContains(t, err, "other users can read ")
	remove()
	_, err = os.Stat(filepath.Dir(name))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestReadInvitationErrors(t *testing.T) {
	for text, says := range map[string]string{
		"":                 "read the invitation",
		"{":                "parse the invitation",
		"hello\n":          "parse the invitation",
		`{"gather":3}`:     "version 3 of the gather protocol",
		`{"gather":2}`:     "lacks the launcher's address",
		"\x00\x00\x00\x00": "parse the invitation",
	} {
		_, err := ReadInvitation(strings.NewReader(text))
		assert.ErrorContains(t, err, says, "%q", text)
	}
}

func TestFind(t *testing.T) {
	nodes := []string{"n1", "n2.example.org", "n3", "10.0.0.1", "n4.a", "n4.b"}
	for name, want := range map[string]int{
		"n1": 0, "n1.example.org": 0, "n2": 1, "n2.example.org": 1, "n2.other.org": -1, "10.0.0.1": 3, "10.0.0.2": -1,
		"n4": -1, "n4.b": 5, "": -1, "n": -1,
	} {
		assert.Equal(t, want, find(nodes, name), name)
	}
}

// Messages of srun 22.05.
func TestParse(t *testing.T) {
	for line, want := range map[string]message{
		"srun: error: Unable to create step for job 274: Requested nodes are busy": {kind: stepRefused},
		"srun: error: Unable to create step for job 272: Requested node configuration is not available": {
			kind: nodesRefused,
		},
		"srun: error: Unable to confirm allocation for job 99999: Invalid job id specified": {kind: jobGone},
		"srun: error: Slurm job 276 has expired":                                            {kind: jobGone},
		"srun: Required node not available (down, drained or reserved)":                     {kind: nodeUnavailable},
		"srun: error: Task launch for StepId=5.0 failed on node n3: Communication connection failure": {
			kind: nodeUnavailable, node: "n3",
		},
		"slurmstepd-n2: error: execve(): /opt/gorun: No such file or directory": {
			kind: programMissing, node: "n2",
		},
		"slurmstepd: error: execve(): /opt/gorun: Permission denied": {kind: programMissing},
		"srun: error: n4: task 3: Exited with exit code 2": {
			kind: agentExited, node: "n4",
		},
		"srun: error: n4: tasks 3-4: Exited with exit code 2": {
			kind: agentExited, node: "n4",
		},
		"slurmstepd-n1: error: *** STEP 11.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO TIME LIMIT ***": {
			kind: timeLimit, node: "n1",
		},
		"0: slurmstepd: error: *** STEP 11.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO PREEMPTION ***": {
			kind: preempted,
		},
		"slurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2026-11-22T05:02:15 ***": {kind: cancelled},
		"srun: error: Node failure on n3": {
			kind: nodeFailed, node: "n3",
		},
		"srun: unrecognized option '--overlap'": {kind: overlapUnknown},
		"srun: got SIGCONT":                     {kind: redundant},
		"gorun: n2: cannot reach the launcher: 10.0.0.1:4000: connection refused": {},
	} {
		got := parse(line + "\r\n")
		assert.Equal(t, want.kind, got.kind, line)
		assert.Equal(t, want.node, got.node, line)
	}
	assert.NotContains(t, parse("\x1b[2Jx\x07").text, "\x1b")
}

// started is a gathering by a script that plays srun. It has ended.
func started(t *testing.T, script string) (g *Gathering, details []string, err error) {
	g, _, err = Start(t.Context(), Config{
		Start: engine.Start{
			Once: []string{"sh", "-c", script, "/usr/bin/srun", "--overlap", "-n1"}, Bcast: []string{"--bcast"},
		},
		Agent: []string{"agent"}, Nodes: []string{"n1"}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Timeout: time.Minute,
		Arrived: func(int, bool) {}, Detail: func(text string) { details = append(details, text) },
		Ending: func() { t.Error("the job goes on") },
	})
	g.Close()
	return g, details, err
}

func TestSrunWithoutOverlap(t *testing.T) {
	const script = `case "$*" in *--overlap*) echo "$0: unrecognized option '--overlap'"; exit 1;; esac
echo "srun: cluster configuration lacks support for cpu binding"; echo "gorun: n1: no way"; echo "srun: error: ` +
		`n1: task 0: Exited with exit code 125"; exit 7`
	_, details, err := started(t, script)
	require.EqualError(t, err, "srun ended before all agents connected (exit code 7): gorun: n1: no way; srun: error: "+
		"n1: task 0: Exited with exit code 125")
	require.Equal(t, []string{
		"srun: /usr/bin/srun: unrecognized option '--overlap'", "srun is older than --overlap: trying without it",
		"srun: gorun: n1: no way", "srun: error: n1: task 0: Exited with exit code 125",
	}, details)
}

// What the engine reports of a command that was ended to start another one is not the end of the job.
func TestEndingOfTheFirstAttempt(t *testing.T) {
	const script = `case "$*" in *--bcast*) exit 7;; esac
trap 'echo "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 ***"; exit 1' TERM
echo "slurmstepd: error: execve(): agent: No such file or directory"; sleep 600 & wait`
	g, _, err := started(t, script)
	require.ErrorContains(t, err, "exit code 7")
	require.Empty(t, g.Ending(0))
}

func TestMostTelling(t *testing.T) {
	var l log
	for _, line := range []string{"gorun: n2: no way to the head", "srun: error: n2: task 1: Exited with exit code 125"} {
		l.add(parse(line))
	}
	require.Equal(t, "gorun: n2: no way to the head", l.mostTelling())
}

// Output of scontrol of Slurm 22.05, shortened.
func TestDownNodes(t *testing.T) {
	require.Equal(t, []string{"n2", "n4"}, parseDown("NodeName=n1 Arch=x86_64 State=MIXED ThreadsPerCore=1\n"+
		"NodeName=n2 Arch=x86_64 State=DOWN ThreadsPerCore=1 Reason=x\nNodeName=n3 State=ALLOCATED+DRAIN\n"+
		"NodeName=n4 State=DOWN*+DRAIN"))
	require.Empty(t, parseDown("Node n9 not found\n"))
}

// Without scontrol, and if no node is down, the hint names both causes.
func TestHintNodes(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	cfg := &Config{Nodes: []string{"n1", "n2", "n3"}}
	m := parse("srun: error: Unable to create step for job 29: Requested node configuration is not available")
	both := "run `sinfo -N -n n[1-3]` to see whether a node is down, and add `--exclude NODE` to leave it out; " +
		"compare SLURM_JOB_NODELIST with the nodes of the job: `scontrol show job`"
	require.Equal(t, both, hint(m, cfg, "srun"))

	script := "#!/bin/sh\n[ \"$*\" = 'show node --oneliner n1,n2,n3' ] && echo NodeName=n2 State=DOWN\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "scontrol"), []byte(script), 0o755))
	require.Equal(t, "add `--exclude n2` to leave out nodes of the allocation that are down", hint(m, cfg, "srun"))
}

func TestEnding(t *testing.T) {
	for want, lines := range map[string][]string{
		"":                    {"srun: got SIGCONT"},
		"time limit":          {"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO TIME LIMIT ***"},
		"cancelled (scancel)": {"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 ***"},
		"preempted": {
			"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 ***",
			"*** JOB 1 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO PREEMPTION ***",
		},
		"requeued": {"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO JOB REQUEUE ***"},
		"node failure: n3, n4": {
			"srun: error: Node failure on n3", "srun: error: Node failure on n4",
			"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 ***",
		},
		"node failure": {"*** STEP 1.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO NODE FAILURE, SEE SLURMCTLD " +
			"LOG FOR DETAILS ***"},
	} {
		var e ending
		for _, line := range lines {
			e.add(parse(line))
		}
		assert.Equal(t, want, e.String())
	}
}

// A host that reports node failures forever cannot fill the memory.
func TestEndlessMessages(t *testing.T) {
	cfg := Config{Nodes: []string{"n1", "n2"}, Detail: func(string) {}, Ending: func() {}}
	g := &Gathering{cfg: cfg, endingKnown: make(chan struct{})}
	c := &command{report: g.receive, failed: make(chan struct{})}
	for i := range 10_000 {
		c.receive(fmt.Sprintf("srun: error: Node failure on n%d", i))
	}
	<-c.failed
	assert.Len(t, g.ending.nodes, 2)
	assert.Len(t, c.log.all(), maxLog)
}

func FuzzParse(f *testing.F) {
	f.Add("slurmstepd-n1: error: *** STEP 11.0 ON n1 CANCELLED AT 2026-11-22T05:02:15 DUE TO TIME LIMIT ***")
	f.Add("srun: error: n4: task 3: Exited with exit code 2")
	f.Add("srun: error: Node failure on \x1b[2J")
	f.Fuzz(func(t *testing.T, line string) {
		m := parse(line)
		assert.NotContains(t, m.text+m.node, "\x1b")
		assert.NotContains(t, m.text+m.node, "\n")
	})
}

func FuzzInvitation(f *testing.F) {
	f.Add([]byte(`{"gather":2,"version":"v","token":"AAAA","addrs":["10.0.0.1"],"port":4000,"nnodes":2,"within":1000}` +
		"\n"))
	f.Add([]byte(`{"gather":2,"addrs":["::1"],"port":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if i, err := ReadInvitation(bytes.NewReader(text)); err == nil {
			require.NotEmpty(t, i.Addrs)
			require.Positive(t, i.Port)
		}
	})
}
