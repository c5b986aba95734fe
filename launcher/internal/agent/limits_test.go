package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/probe"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// A node that joined scans no ports, opens no store on request, and answers no queries about directories.
func TestWhatAHeadMayNotAsk(t *testing.T) {
	v := victim{Joined: true, TempDir: t.TempDir(), Script: "exec sleep 600"}
	many := &wire.Probe{Key: make([]byte, 16), Targets: make([]probe.Target, maxTargets+1)}
	for want, sent := range map[string][]wire.Message{
		"it sent more than 1 frames of type hello":                           {hello(v), hello(v)},
		"an open frame, which a launcher may not send to a node that joined": {hello(v), &wire.Open{Addr: "0.0.0.0"}},
		"a check frame, which a launcher may not send to a node that joined": {hello(v), &wire.Check{Dir: "/home/user/.ssh"}},
		"agent: the launcher requests more dials than the limit":             {many},
		"a grow frame, which no launcher may send before ranks are started":  {hello(v), &wire.Grow{}},
		"a kill frame, which no launcher may send before ranks are started":  {&wire.Kill{}},
		"a start frame, which no launcher may send while ranks run":          {hello(v), startOf(v), startOf(v)},
		"a probe frame, which no launcher may send while ranks run":          {hello(v), startOf(v), &wire.Probe{}},
		`the launcher gives a world the invalid name "../x"`:                 {hello(v), startOf(v), growIn("../x")},
		"the launcher places rank 0 of world w on host 0 of 0, with pr":      {hello(v), startOf(v), growIn("w")},
	} {
		h := attack(t, v)
		for _, m := range sent {
			h.send(m)
		}
		h.wait()
		assert.Contains(t, h.said.String(), want)
	}
}

func growIn(name string) *wire.Grow {
	g := growBy(1, "true", 0)
	g.World.Name, g.World.Hosts = name, nil
	return &g
}

// Input for a rank that does not read it, or beyond the rank's credit, ends the connection.
func TestInputThatNobodyReads(t *testing.T) {
	v := victim{Joined: true, TempDir: t.TempDir(), Script: "exec sleep 600"}
	for want, rank := range map[string]int{
		"input for rank 1, which does not read stdin on this node": 1,
		"more unread input for rank 0 than":                        0,
	} {
		h := attack(t, v)
		h.send(hello(v))
		s := startOf(v)
		s.Stdio.Piped = []int{0, 9}
		h.send(s)
		_, ok := h.await(wire.TypeRunning)
		require.True(t, ok, h.said.String())
		for range 3 * maxInput >> 16 {
			if h.link.Stdin(rank, make([]byte, 1<<16)) != nil {
				break
			}
		}
		h.wait()
		assert.Contains(t, h.said.String(), want)
	}
}

// A launcher may already have sent input when a node refuses to start ranks. It still gets the reason.
func TestInputForRanksThatAreRefused(t *testing.T) {
	v := victim{Joined: true, TempDir: t.TempDir(), Script: "exec sleep 600"}
	h := attack(t, v)
	h.send(hello(v))
	s := startOf(v)
	s.Ranks, s.Stdio.Piped = append(s.Ranks, wire.Row{Process: spec.Process{Rank: 2}}), []int{0}
	h.send(s)
	for range 3 * maxInput >> 16 {
		require.NoError(t, h.link.Stdin(0, make([]byte, 1<<16)))
	}
	f, ok := h.await(wire.TypeStartFailed)
	require.True(t, ok, h.said.String())
	var failed wire.StartFailed
	require.NoError(t, f.Decode(&failed))
	assert.Contains(t, failed.Text, "node 0 requests 3 ranks here, this node's command line allows 2")
	h.send(&wire.Cleanup{})
	_, ok = h.await(wire.TypeCleanedUp)
	assert.True(t, ok, h.said.String())
	h.end()
}

// A write to a rank that never read ends with the attempt. The next attempt does not count that input as read.
func TestInputOfAnAttemptThatIsOver(t *testing.T) {
	j, received := growableJob(t)
	j.start.Stdio.Piped = []int{10}
	require.NoError(t, j.grow(growBy(1, "/bin/true", 10)))
	next[wire.Grown](t, received)
	feedOnce := func() {
		f := &feed{waiting: []byte("words"), ended: true}
		f.more.L = &j.stdin.mu
		j.stdin.feed(10, f)
	}
	feedOnce()
	require.Equal(t, wire.Credit{Bytes: len("words")}, next[wire.Credit](t, received))
	j.timers.stop()
	feedOnce()
	require.NoError(t, j.agent.link.Send(&wire.CleanedUp{}))
	for f := range received {
		assert.NotEqual(t, wire.TypeCredit, f.Type)
		if f.Type == wire.TypeCleanedUp {
			return
		}
	}
}

// Status queries on ranks that cannot be inspected mostly get no answer, and the job continues.
func TestQuestionsThatTakeForEver(t *testing.T) {
	j := &job{}
	var asked []func()
	answered := make(chan func(), 2*maxQueries)
	ask := func() { j.answerQuery(func(done func()) { answered <- done }) }
	for range 10 * maxQueries {
		ask()
	}
	for range maxQueries {
		asked = append(asked, <-answered)
	}
	ask()
	require.Equal(t, int32(maxQueries), j.queries.Load(), "none of the others is being answered")
	asked[0]()
	ask()
	<-answered
}

// Returned credit that was never taken does not enlarge the window.
func TestCreditThatWasNotTaken(t *testing.T) {
	c := newCredit(100, nil)
	c.take(1, 40)
	for _, n := range []int{1 << 62, 1<<63 - 1, -1 << 62, 7} {
		c.add(1, n)
		require.Equal(t, 100, c.left[1])
	}
}
