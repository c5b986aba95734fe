package launcher_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/env"
	"gorun/launcher"
	"gorun/launcher/job"
)

func init() {
	// A rank that names itself to the test and ends when the test does.
	roles["elastic"] = func(r env.Rank) {
		c, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(c, "attempt %d: %s is rank %d of %d\n", r.Attempt, os.Getenv("TAG"), r.Rank, r.WorldSize)
		_, _ = io.Copy(io.Discard, c)
	}
}

// elasticJob is a job of at most 3 nodes that come and go, each by itself.
type elasticJob struct {
	t     *testing.T
	port  int
	least int // number of nodes
	ranks net.Listener
	conns []net.Conn
	// lastCall is the nodes' last call. With grow the job starts again for those that come later.
	lastCall time.Duration
	grow     bool
}

func newElasticJob(t *testing.T, least int, lastCall time.Duration, grow bool) *elasticJob {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)))
	return &elasticJob{t: t, port: freePort(t), least: least, ranks: l, lastCall: lastCall, grow: grow}
}

// elasticNode is one of its nodes.
type elasticNode struct {
	part
	leave               context.CancelFunc
	signals             chan chan<- os.Signal // has where signals to it go
	waits, awaits, done chan struct{}         // closed when it waits for a place, or for others, and at its end
}

// node starts a node with one rank.
func (j *elasticJob) node(tag string, rank int) *elasticNode {
	n := &elasticNode{
		signals: make(chan chan<- os.Signal, 1),
		waits:   make(chan struct{}), awaits: make(chan struct{}), done: make(chan struct{}),
	}
	s := own(j.t, specOf("elastic", 1))
	s.MinNodes, s.Grace, s.Grow, s.Restarts.Max = j.least, time.Second, j.grow, j.least-1
	s.Apps[0].Args, s.Environ = []string{j.ranks.Addr().String()}, append(s.Environ, "TAG="+tag)
	s.Join = &job.JoinSpec{
		NodeRank: rank, NumNodes: 3, Addr: "127.0.0.1", Port: j.port, Timeout: time.Minute, LastCall: j.lastCall,
		Insecure: true,
	}
	ctx, leave := context.WithCancel(j.t.Context())
	n.leave = leave
	go func() {
		defer close(n.done)
		say := func(notice launcher.Notice) string {
			if strings.Contains(notice.Text, "this node waits as a spare until it restarts") {
				close(n.waits)
			}
			if strings.HasPrefix(notice.Text, "waiting up to 1m0s, until ") ||
				strings.HasSuffix(notice.Text, "; waiting for it to come back") {
				close(n.awaits)
			}
			return notice.Text
		}
		n.result, n.err = launcher.Run(ctx, s, with(withOutput(&n.out, &n.notice), withNotices(say),
			withSignals(func(to chan<- os.Signal) { n.signals <- to })))
	}()
	return n
}

// expect waits until ranks have named themselves.
func (j *elasticJob) expect(want ...string) {
	j.t.Helper()
	var got []string
	for range want {
		c, err := j.ranks.Accept()
		require.NoError(j.t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(j.t, err)
		j.conns, got = append(j.conns, c), append(got, line)
	}
	slices.Sort(got)
	for i := range want {
		require.Equal(j.t, want[i]+"\n", got[i])
	}
}

// finish ends all ranks, and waits for the nodes.
func (j *elasticJob) finish(nodes ...*elasticNode) {
	for _, conn := range j.conns {
		conn.Close()
	}
	for _, n := range nodes {
		<-n.done
	}
}

// With --max-restarts a job with too few nodes waits for others.
func TestNodesThatJoinAreAwaited(t *testing.T) {
	j := newElasticJob(t, 2, time.Minute, false)
	a, b, c := j.node("a", 0), j.node("b", 1), j.node("c", 2)
	j.expect("attempt 0: a is rank 0 of 3", "attempt 0: b is rank 1 of 3", "attempt 0: c is rank 2 of 3")
	c.leave()
	j.expect("attempt 1: a is rank 0 of 2", "attempt 1: b is rank 1 of 2")
	b.leave()
	<-a.awaits
	b2 := j.node("b2", 1)
	j.expect("attempt 2: a is rank 0 of 2", "attempt 2: b2 is rank 1 of 2")
	j.finish(a, b, c, b2)
	require.NoError(t, a.err, a.notice.String())
	require.Zero(t, a.result.ExitCode)
}

func TestNodesThatJoinComeAndGo(t *testing.T) {
	j := newElasticJob(t, 1, time.Minute, false)
	a, b, c := j.node("a", 0), j.node("b", 1), j.node("c", 2)
	j.expect("attempt 0: a is rank 0 of 3", "attempt 0: b is rank 1 of 3", "attempt 0: c is rank 2 of 3")
	b.leave()
	j.expect("attempt 1: a is rank 0 of 2", "attempt 1: c is rank 1 of 2")
	b2, d := j.node("b", 1), j.node("d", -1)
	<-b2.waits
	<-d.waits
	c.leave()
	j.expect("attempt 2: a is rank 0 of 3", "attempt 2: b is rank 1 of 3", "attempt 2: d is rank 2 of 3")
	b2.leave()
	j.expect("attempt 3: a is rank 0 of 2", "attempt 3: d is rank 1 of 2")
	d.leave()
	j.expect("attempt 4: a is rank 0 of 1")
	e := j.node("e", -1)
	<-e.waits
	a.leave()
	for _, n := range []*elasticNode{a, b, c, b2, d, e} {
		<-n.done
	}
	require.NoError(t, e.err, e.notice.String())
	require.Contains(t, e.result.Text, fmt.Sprintf("ended with exit code %d while this node waited", a.result.ExitCode))
	require.Contains(t, a.notice.String(), "; 2 nodes left; attempt 1\n")
	require.Contains(t, a.notice.String(), " takes its ranks [1]; attempt 2\n")
	require.Len(t, a.result.Attempts, 4)
}

// A job that may grow starts again for nodes that come later, without one of its restarts. Ranks do not count it.
func TestGrow(t *testing.T) {
	j := newElasticJob(t, 1, time.Millisecond, true)
	a := j.node("a", 0)
	j.expect("attempt 0: a is rank 0 of 1")
	b := j.node("b", 2)
	j.expect("attempt 0: a is rank 0 of 2", "attempt 0: b is rank 1 of 2")
	c := j.node("c", 1)
	j.expect("attempt 0: a is rank 0 of 3", "attempt 0: b is rank 1 of 3", "attempt 0: c is rank 2 of 3")
	j.finish(a, b, c)
	for _, n := range []*elasticNode{a, b, c} {
		require.NoError(t, n.err, n.notice.String())
		require.Zero(t, n.result.ExitCode)
	}
	require.Contains(t, a.notice.String(), "the job grows to 2 nodes, after ")
	require.Len(t, a.result.Attempts, 2)
}

// Where a job may lose nodes, the others wait for a node 0 that SIGTERM has ended.
func TestNode0ComesBack(t *testing.T) {
	j := newElasticJob(t, 2, time.Millisecond, false)
	a, b := j.node("a", 0), j.node("b", 1)
	j.expect("attempt 0: a is rank 0 of 2", "attempt 0: b is rank 1 of 2")
	(<-a.signals) <- syscall.SIGTERM
	<-a.done
	require.Equal(t, 143, a.result.ExitCode)
	<-b.awaits
	a2 := j.node("a2", 0)
	j.expect("attempt 0: a2 is rank 0 of 2", "attempt 0: b is rank 1 of 2")
	j.finish(a2, b)
	require.NoError(t, b.err, b.notice.String())
	require.Zero(t, b.result.ExitCode)
	require.Equal(t, 1, strings.Count(b.notice.String(), "without a token"), b.notice.String())
}

// A node that waits for node 0 ends by a signal.
func TestWaitForNode0Ends(t *testing.T) {
	j := newElasticJob(t, 2, time.Millisecond, false)
	a, b := j.node("a", 0), j.node("b", 1)
	j.expect("attempt 0: a is rank 0 of 2", "attempt 0: b is rank 1 of 2")
	(<-a.signals) <- syscall.SIGTERM
	<-b.awaits
	(<-b.signals) <- syscall.SIGINT
	j.finish(a, b)
	require.NoError(t, b.err, b.notice.String())
	require.Equal(t, 130, b.result.ExitCode)
}
