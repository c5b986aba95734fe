package pmi

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

func TestWaits(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 0, 1))
	require.Empty(t, c.servers[0].Waits())
	ranks := []*client{c.begun(w, 0), c.begun(w, 1), c.begun(w, 2), c.begun(w, 3)}
	ranks[0].says("cmd=barrier_in")
	ranks[2].says("cmd=barrier_in")
	c.awaitInBarrier(w, 0, 2)
	proc := func(rank int) world.Proc { return world.Proc{World: "w", Rank: rank} }
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc(0), proc(2)}, For: []world.Proc{proc(1)}}},
		c.servers[0].Waits())
	ranks[1].says("cmd=barrier_in")
	c.awaitInBarrier(w, 0, 1, 2)
	require.Equal(t, []world.Wait{{Waiting: []world.Proc{proc(0), proc(1), proc(2)}}}, c.servers[0].Waits(),
		"those of another node")
	require.Empty(t, c.servers[1].Waits())
	ranks[3].says("cmd=barrier_in")
	for _, k := range ranks {
		k.receives("cmd=barrier_out")
	}
	require.Empty(t, c.servers[0].Waits())
}

// awaitWaits waits until a node reports these waits.
func (c *cluster) awaitWaits(node int, want ...world.Wait) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		assert.ElementsMatch(t, want, c.servers[node].Waits())
	}, 20*time.Second, time.Millisecond)
}

// oneHost is a world on one host, with the first rank on node 0 and the others on node 1.
func oneHost(ranks int) *world.World {
	w := newWorld("w", make([]int, ranks)...)
	for rank := 1; rank < ranks; rank++ {
		w.Ranks[rank].Node = 1
	}
	return w
}

func TestWaitForAttribute(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(newWorld("w", 0, 0, 0, 1))
	proc := func(rank int) world.Proc { return world.Proc{World: "w", Rank: rank} }
	k := c.begun2(w, 1)
	k.says2("cmd=info-getnodeattr;key=a;wait=TRUE;")
	k.says2("cmd=info-getnodeattr;key=b;wait=TRUE;")
	c.awaitWaits(0, world.Wait{Waiting: []world.Proc{proc(1)}, For: []world.Proc{proc(0), proc(2)}})
	c.servers[0].Ended(proc(2))
	c.awaitWaits(0, world.Wait{Waiting: []world.Proc{proc(1)}, For: []world.Proc{proc(0)}})
	require.Len(t, c.log.all(), 1, "rank 0 may put it yet")
	c.servers[0].Ended(proc(0))
	require.Equal(t, []string{"began w.1 PMI-2", "stuck w.1 for w.0"}, c.log.all(), "once")

	c = newCluster(t, 2, 0)
	w = c.add(oneHost(2))
	c.begun2(w, 1).says2("cmd=info-getnodeattr;key=a;wait=TRUE;")
	c.awaitWaits(1, world.Wait{Waiting: []world.Proc{proc(1)}})
	first := c.begun2(w, 0)
	first.asks2("cmd=info-putnodeattr;key=a;value=v;", "cmd=info-putnodeattr-response;rc=0;")
	c.awaitWaits(1)
}

func TestWhoSpawnsWaits(t *testing.T) {
	c := newCluster(t, 1, 0)
	w := c.add(newWorld("w", 0))
	spawned := make(chan struct{})
	c.log.answerSpawns(func(world.Spawn) (string, error) { <-spawned; return "", errors.New("none") })
	k := c.begun(w, 0)
	k.send(twoPrograms)
	c.awaitWaits(0, world.Wait{Waiting: []world.Proc{k.p}, Spawns: true})
	close(spawned)
	k.receives("cmd=spawn_result rc=-1 msg=none")
	require.Empty(t, c.servers[0].Waits())
}

// If the first node of a world is lost, every other node can return the world's pairs.
func TestPairsOfAWorldWhoseFirstNodeIsGone(t *testing.T) {
	c := newCluster(t, 3, 0)
	k := c.begun(c.add(newWorld("w", 0)), 0)
	other := c.add(newWorld("v", 1, 2))
	ranks := []*client{c.begun(other, 0), c.begun(other, 1)}
	ranks[0].asks("cmd=put kvsname=v key=k value=x", "cmd=put_result rc=0 msg=success")
	together(ranks, "cmd=barrier_in", "cmd=barrier_out")
	c.star.Cut(1)
	c.star.Hub.NodeExited(1, []world.Proc{{World: "v"}})
	k.asks("cmd=get kvsname=v key=k", "cmd=get_result rc=0 msg=success value=x")
	c.star.Lose(2)
	k.asks("cmd=get kvsname=v key=k", "cmd=get_result rc=-1 msg=key_k_not_found value=unknown")
}

// A failed request for an attribute gets a reply, and no longer waits.
func TestAnAttributeOfANodeThatIsLost(t *testing.T) {
	c := newCluster(t, 2, 0)
	w := c.add(oneHost(2))
	k := c.begun2(w, 1)
	k.says2("cmd=info-getnodeattr;key=a;wait=TRUE;")
	c.awaitWaits(1, world.Wait{Waiting: []world.Proc{k.p}})
	c.star.Lose(0)
	k.receivesPMI2("cmd=info-getnodeattr-response;rc=-1;errmsg=node_0_is_lost;")
	for range maxPending + 1 {
		k.asks2("cmd=info-putnodeattr;key=a;value=v;", "cmd=info-putnodeattr-response;rc=-1;errmsg=node_0_is_lost;")
	}
	require.Empty(t, c.servers[1].Waits())
}
