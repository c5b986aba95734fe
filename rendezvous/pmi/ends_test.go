package pmi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

func TestWaitForExitedRankFails(t *testing.T) {
	t.Run("here, after others came", func(t *testing.T) {
		c := newCluster(t, 1, 0)
		w := c.add(newWorld("w", 0, 0, 0))
		c.begun(w, 0).says("cmd=barrier_in")
		c.begun(w, 2).says("cmd=barrier_in")
		c.awaitInBarrier(w, 0, 2)
		c.servers[0].Ended(world.Proc{World: "w", Rank: 1}) // it never connected
		c.log.await(t, "stuck w.0 w.2 for w.1")
	})
	t.Run("here, before others come", func(t *testing.T) {
		c := newCluster(t, 1, 0)
		w := c.add(newWorld("w", 0, 0, 0))
		c.servers[0].Ended(world.Proc{World: "w", Rank: 1})
		c.begun(w, 2).says("cmd=barrier_in")
		c.log.await(t, "stuck w.2 for w.1")
	})
	t.Run("on another node, after others came", func(t *testing.T) {
		c := newCluster(t, 2, 0)
		w := c.add(newWorld("w", 0, 0, 1, 1))
		c.begun(w, 0).says("cmd=barrier_in")
		c.begun(w, 1).says("cmd=barrier_in")
		c.awaitInBarrier(w, 0, 1)
		c.servers[1].Ended(world.Proc{World: "w", Rank: 3})
		c.log.await(t, "stuck w.0 w.1 for w.3")
	})
	t.Run("on another node, before others come", func(t *testing.T) {
		c := newCluster(t, 2, 0)
		w := c.add(newWorld("w", 0, 1))
		c.servers[1].Ended(world.Proc{World: "w", Rank: 1})
		c.begun(w, 0).says("cmd=barrier_in")
		c.log.await(t, "stuck w.0 for w.1")
	})
	t.Run("in a group", func(t *testing.T) {
		c := newCluster(t, 1, 0)
		w := c.add(newWorld("w", 0, 0, 0))
		c.begun(w, 0).says("cmd=barrier_in group=0,2:7")
		c.servers[0].Ended(world.Proc{World: "w", Rank: 1}) // not a member
		c.servers[0].Ended(world.Proc{World: "w", Rank: 2})
		c.log.await(t, "stuck w.0 for w.2")
		require.Len(t, c.log.all(), 2, "%q", c.log.all())
	})
}

// awaitInBarrier waits until ranks of one node are in the barrier of the world.
func (c *cluster) awaitInBarrier(w *world.World, ranks ...int) {
	c.t.Helper()
	s := c.servers[w.Ranks[ranks[0]].Node]
	sp := s.spaces[w.Name]
	require.Eventually(c.t, func() bool {
		s.node.Lock()
		defer s.node.Unlock()
		for _, rank := range ranks {
			if sp.whole.arrived[rank] == nil && sp.whole.crossing[rank] == nil {
				return false
			}
		}
		return true
	}, 20e9, 1e6)
}

// The launcher knows that a node is lost, so the server does not report its ranks.
func TestALostNodeIsNotReported(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 1))
	c.begun(w, 0).says("cmd=barrier_in")
	c.begun(w, 1).says("cmd=barrier_in")
	c.awaitInBarrier(w, 0, 1)
	c.star.Lose(1)
	asked := make(chan error, 1)
	c.star.Nodes[0].Request(exchange.Head, "none", nil, func(_ []byte, err error) { asked <- err })
	require.Error(t, <-asked) // after everything sent before has been handled
	require.Equal(t, []string{"began w.0 PMI-1", "began w.1 PMI-1"}, c.log.all())
	c.awaitInBarrier(w, 0, 1)
}

// A barrier that fails for another reason gives the request an error, which is also reported.
func TestABarrierThatIsRefused(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 1))
	one, two := c.begun(w, 0), c.begun2(w, 1)
	c.star.Hub.Receive(1, &exchange.Message{
		Kind: exchange.Enter, ID: "pmi/w/all/1", Nodes: []int{0, 1},
		Blobs: [][]byte{[]byte("garbage")},
	})
	one.asks("cmd=put kvsname=w key=k value=v", "cmd=put_result rc=0 msg=success")
	one.says("cmd=barrier_in")
	two.says2("cmd=kvs-fence;")
	const why = "pmi:_cannot_read_a_message_from_another_node's_server"
	one.receives("cmd=barrier_out rc=-1 msg=" + why)
	two.receivesPMI2("cmd=kvs-fence-response;rc=-1;errmsg=" + why + ";")
	c.log.await(t, "say w.0: PMI: a barrier with other nodes failed: pmi: cannot read a message")
	one.says("cmd=barrier_in") // it has left the first barrier
	c.awaitInBarrier(w, 0)
	c.servers[0].node.Lock()
	require.Equal(t, "\x01k\x01v", string(c.servers[0].spaces["w"].pack()), "which goes along with the next one")
	c.servers[0].node.Unlock()
	require.NotContains(t, strings.Join(c.log.all(), "\n"), "broken")
}

// A rank has exited even if another process, such as its child, holds its socket open without reading.
func TestARankThatEndsWithoutReading(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	k, other := c.begun(w, 0), c.begun(w, 1)
	other.asks("cmd=put kvsname=w key=k value="+strings.Repeat("v", valueMax), "cmd=put_result rc=0 msg=success")
	other.says("cmd=barrier_in")
	c.awaitInBarrier(w, 1)
	sp := c.servers[0].spaces["w"]
	c.servers[0].node.Lock()
	out := sp.sessions[0].out
	c.servers[0].node.Unlock()
	asking := make(chan struct{})
	go func() {
		defer close(asking)
		for {
			if _, err := k.conn.Write([]byte("cmd=get kvsname=w key=k\n")); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return out.Waiting() > maxUnsent }, 20*time.Second, time.Millisecond)
	c.servers[0].Ended(k.p)
	<-asking // the server has closed the connection
	c.log.await(t, "stuck w.1 for w.0")
}

// Requests that a rank sent before it exited count, even if the server learns of the exit first.
func TestTheLastRequestsOfARankAreRead(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	k := c.begun(w, 0)
	k.says("cmd=finalize")
	c.servers[0].Ended(k.p)
	k.receives("cmd=finalize_ack rc=0")
	k.closed() // this end stays open, as in a process that outlives its rank
	require.Equal(t, []string{"began w.0 PMI-1", "finalized w.0"}, c.log.all())
	k = c.begun(w, 1)
	k.says("cmd=abort exitcode=42 message=no = way out")
	c.servers[0].Ended(k.p)
	require.Equal(t, "abort w.1 42 no = way out", c.log.await(t, "abort"))
	require.NoError(t, k.conn.Close())
	c.serving.Wait()
	require.Len(t, c.log.all(), 4, "who aborts has not just left: %q", c.log.all())
}

func TestARankThatLeavesWithoutFinalize(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0, 0))
	k := c.begun(w, 0)
	require.NoError(t, k.conn.Close())
	c.log.await(t, "left w.0")
	require.NoError(t, c.connect(w, 1).conn.Close()) // it never began MPI
	k = c.begun(w, 2)
	k.send("cmd=barr")
	require.NoError(t, k.conn.Close())
	c.log.await(t, "left w.2")
	c.serving.Wait()
	require.Len(t, c.log.all(), 4, "%q", c.log.all())
}

func TestMPIBeginsAgain(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 1))
	ranks := []*client{c.begun(w, 0), c.begun(w, 1)}
	for _, value := range []string{"first", "second"} {
		for _, k := range ranks {
			k.init1() // again without finalize: a second program of the rank
		}
		ranks[0].asks("cmd=put kvsname=w key=k value="+value, "cmd=put_result rc=0 msg=success")
		together(ranks, "cmd=barrier_in", "cmd=barrier_out")
		ranks[1].asks("cmd=get kvsname=w key=k", "cmd=get_result rc=0 msg=success value="+value)
		together(ranks, "cmd=finalize", "cmd=finalize_ack rc=0")
	}
	require.Equal(t, 4, strings.Count(strings.Join(c.log.all(), "\n"), "began"))
	ranks[0].asks("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	ranks[0].asks2("cmd=finalize;", "cmd=finalize-response;rc=0;")
	ranks[0].init1()
	c.log.await(t, "began w.0 PMI-2")
}

// A program ends while it waits in barriers, and another begins: over the same connection, then over a new one.
func TestAProgramThatEndsInABarrier(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	k, other := c.begun(w, 0), c.begun(w, 1)
	k.says("cmd=barrier_in")
	k.says("cmd=barrier_in group=0,1:1")
	c.awaitInBarrier(w, 0)
	k.init1()
	k.says("cmd=barrier_in")
	c.awaitInBarrier(w, 0)
	require.NoError(t, k.conn.Close())
	c.log.await(t, "left w.0")
	require.Zero(t, c.servers[0].spaces["w"].usage(0).groups)
	again := c.begun(w, 0)
	again.says("cmd=barrier_in")
	other.asks("cmd=barrier_in", "cmd=barrier_out")
	again.receives("cmd=barrier_out")
}

// The server reports a rank that sends garbage. No other rank is affected.
func TestGarbage(t *testing.T) {
	init, init2 := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=init pmi_version=2 pmi_subversion=0\n"
	for sent, want := range map[string]string{
		"\x16\x03\x01":                                    "is not a PMI request",
		"cmd=get_maxes\n":                                 `"get_maxes" before init for PMI-1`,
		"cmd=init pmi_version=one\n":                      `"init" has pmi_version="one"`,
		"cmd=\n":                                          `"" before init`,
		init + "cmd=frobnicate x=1\n":                     `unknown command of PMI-1: "frobnicate"`,
		init + "cmd=put kvsname=w value=1\n":              `"put" without key`,
		init + "cmd=get kvsname=w\n":                      `"get" without key`,
		init + "cmd=publish_name service=a\n":             `"publish_name" without port`,
		init + "cmd=barrier_in\ncmd=barrier_in\n":         "it enters a barrier in which it already waits",
		init + "cmd=barrier_in group=1:1\n":               "of which it is not a member",
		init + "cmd=barrier_in group=0,9:1\n":             "use WORLD, NODE or a list of the 2 ranks",
		init + "cmd=barrier_in group=\n":                  "use WORLD, NODE or a list of the 2 ranks",
		init + "    12cmd=finalize":                       "is not a PMI request",
		init2 + "cmd=get_maxes\n":                         `"get_maxes" before init for PMI-1`,
		init2 + "    20cmd=frobnicate;x=1;;":              `unknown command of PMI-2: "frobnicate"`,
		init2 + "    16cmd=kvs-put;a=b;":                  `"kvs-put" without key`,
		init2 + "     3=1;":                               "is not key=value",
		init2 + "   xxxxxxx":                              "in place of the length of a PMI-2 message",
		"cmd=singinit authtype=none\n":                    "start it with gorun",
		"cmd=initack pmiid=1\n":                           "rank 0 claims to be rank 1",
		"cmd=initack pmiid=-1\n":                          `"initack" has pmiid="-1"`,
		"mcmd=spawn\ntotspawns=1\nendcmd\n":               `"spawn" before init for PMI-1`,
		init + "mcmd=spawn\ntotspawns=1\nendcmd\n":        "without the name of a program",
		init + "cmd=" + strings.Repeat("x", maxLine+4096): "a request of more than 262144 bytes",
	} {
		t.Run(want, func(t *testing.T) { garbage(t, sent, want) })
	}
}

func garbage(t *testing.T, sent, want string) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	other := c.begun(w, 1)
	k := c.connect(w, 0)
	go func() { _, _ = k.conn.Write([]byte(sent)) }()
	require.Contains(t, c.log.await(t, "broken w.0"), want)
	all := make([]byte, 4096)
	var last string
	for {
		n, err := k.conn.Read(all)
		last += string(all[:n])
		if err != nil {
			break
		}
	}
	require.Regexp(t, "rc=-1[ ;](err)?msg=", last, "the client learns it, too")
	other.asks("cmd=get_appnum", "cmd=appnum appnum=0 rc=0")
	require.NotContains(t, strings.Join(c.log.all(), "\n"), "left")
}

func TestClosedServer(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0, 0))
	k := c.begun(w, 0)
	c.servers[0].Close()
	k.closed()
	c.serving.Wait()
	c.connect(w, 1).closed()
	c.connectAs(world.Proc{World: "unknown"}, 0).closed()
	c.serving.Wait()
	require.NotContains(t, strings.Join(c.log.all(), "\n"), "left")
}

// MPICH's PMI-2 client sends the code of MPI_Abort only in its message text.
func TestCodeInWords(t *testing.T) {
	for message, want := range map[string]int{
		"application called MPI_Abort(MPI_COMM_WORLD, 42) - process 0":  42,
		"application called MPI_Abort(comm=0x84000001, -1) - process 3": -1,
		"application called MPI_Abort(MPI_COMM_WORLD, 0) - process 0":   0,
		"Fatal error in internal_Init: Other MPI error":                 1,
		"MPI_Abort(": 1, "": 1, "application called MPI_Abort(MPI_COMM_WORLD, x) - process 0": 1,
	} {
		require.Equal(t, want, codeIn(message), message)
	}
}
