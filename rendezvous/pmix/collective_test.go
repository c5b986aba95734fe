package pmix

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

func within(seconds int) info { return attr(keyTimeout, uint32(seconds)) }

// A rank that is not a member cannot end a fence.
func TestFenceOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 4, 2)
		all := start(t, 2, w)
		ranks := all.joinAll(w)
		pair := []world.Proc{proc(w.Name, 0), proc(w.Name, 2)}
		tag := ranks[0].ask(commandFence, fenceBody(pair))
		require.Equal(t, statusBadParameter, ranks[1].status(commandFence, fenceBody(pair, within(1))))
		require.Equal(t, statusBadParameter, ranks[3].status(commandFence, fenceBody(pair, within(1))))
		time.Sleep(time.Minute)
		require.Equal(t, statusSuccess, ranks[2].status(commandFence, fenceBody(pair)))
		require.Equal(t, statusSuccess, ranks[0].wait(tag).oneStatus())
	})
}

// Several fences of the same members may be in progress. One may expire, whether or not all members of its node
// have arrived, while the one before it continues.
func TestFenceBehindAnotherTimesOut(t *testing.T) {
	for name, second := range map[string][]int{"complete here": {0, 1}, "not complete": {0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := spread("gorun-1", 3, 2)
				w.Ranks[1] = world.Rank{Job: 1, LocalRank: 1, NodeRank: 1}
				w.Ranks[2] = world.Rank{Job: 2, Host: 1, Node: 1}
				all := start(t, 2, w)
				ranks := all.joinAll(w)
				first := []uint32{
					ranks[0].ask(commandFence, fenceBody(everybody(w))),
					ranks[1].ask(commandFence, fenceBody(everybody(w))),
				}
				synctest.Wait() // both have arrived
				for _, rank := range second {
					tag := ranks[rank].ask(commandFence, fenceBody(everybody(w), within(3)))
					defer func() { require.Equal(t, statusTimeout, ranks[rank].wait(tag).oneStatus()) }()
				}
				time.Sleep(time.Minute)
				ranks[0].unanswered(first[0])
				require.Equal(t, statusSuccess, ranks[2].status(commandFence, fenceBody(everybody(w))))
				require.Equal(t, statusSuccess, ranks[0].wait(first[0]).oneStatus())
				require.Equal(t, statusSuccess, ranks[1].wait(first[1]).oneStatus())
				fenceAll(t, w, ranks)
				synctest.Wait()
				require.Empty(t, all.servers[0].queues)
				require.Empty(t, all.servers[0].collectives)
				require.Empty(t, all.servers[0].Waits())
			})
		})
	}
}

// If only one node refuses a fence, the other nodes get the refusal too.
func TestCollectiveRefusedOnOneNode(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	tag := ranks[1].ask(commandGroupConstruct, writeConstruct("g", everybody(w)))
	much := valueOf([]info{attr("pmix.grp.much", make([]byte, maxScope+8<<10))})
	require.Equal(t, statusError,
		ranks[0].status(commandGroupConstruct, writeConstruct("g", everybody(w), attr(keyGroupInfo, much))))
	require.Equal(t, statusTimeout, ranks[1].wait(tag).oneStatus())
}

// A program ends while it waits in a fence, and the rank's next one enters it.
func TestAProgramThatEndsInAFence(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	all := start(t, 1, w)
	first := all.join(w, 0)
	first.unanswered(first.ask(commandFence, fenceBody(everybody(w))))
	require.NoError(t, first.conn.Close())
	require.Equal(t, "left 0", all.received.next(t))
	require.Empty(t, all.servers[0].collectives)
	fenceAll(t, w, all.joinAll(w))
}

// A node's part in a fence is limited in size. Nodes fetch the rest on request.
func TestFenceOfMuchData(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	for _, c := range ranks[:2] {
		large := encodeKvals(attr("k", make([]byte, exchange.MaxBlob/2)))
		require.Equal(t, statusSuccess, c.status(commandCommit, func(e *encoder) {
			e.group(1)
			e.uint8(uint8(scopeRemote))
			e.group(1)
			e.uint8(bufferNotDescribed)
			e.bytes(large)
		}))
	}
	fenceAll(t, w, ranks, collecting)
	for rank := range 2 {
		_, code := ranks[2].get(proc(w.Name, rank), "k")
		require.Equal(t, statusSuccess, code)
	}
}

// A script may run several programs in turn. Ranks of the second program do not get commits of the first, neither
// through a fence nor through a request.
func TestProgramsOneAfterAnother(t *testing.T) {
	for name, infos := range map[string][]info{"by a fence": {collecting}, "by a question": nil} {
		t.Run(name, func(t *testing.T) {
			w := spread("gorun-1", 3, 2)
			w.Ranks[1] = world.Rank{Job: 1, LocalRank: 1, NodeRank: 1}
			w.Ranks[2] = world.Rank{Job: 2, Host: 1, Node: 1}
			all := start(t, 2, w)
			ranks := all.joinAll(w)
			ranks[0].commit(scopeGlobal, "k", "first")
			fenceAll(t, w, ranks, infos...)
			for _, c := range ranks[1:] {
				text, _ := c.get(proc(w.Name, 0), "k")
				require.Equal(t, "first", text)
			}
			for _, c := range ranks {
				require.Equal(t, statusSuccess, c.status(commandFinalize, nil))
			}
			near, far := all.join(w, 1), all.join(w, 2)
			nearTag, farTag := near.ask(commandGet, getBody(proc(w.Name, 0), "k")),
				far.ask(commandGet, getBody(proc(w.Name, 0), "k"))
			near.unanswered(nearTag)
			far.unanswered(farTag)
			all.join(w, 0).commit(scopeGlobal, "k", "second")
			for c, tag := range map[*client]uint32{near: nearTag, far: farTag} {
				found, _ := c.data(c.wait(tag))
				require.Equal(t, "second", found[proc(w.Name, 0)]["k"])
			}
		})
	}
}

// Fences and connects report the ranks that have begun again, even after a fence without such ranks.
func TestFenceReportsNewEpochs(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	first, other := all.join(w, 0), all.join(w, 1)
	first.commit(scopeGlobal, "k", "first")
	fenceAll(t, w, []*client{first, other}, collecting)
	require.Equal(t, statusSuccess, first.status(commandFinalize, nil))
	again := all.join(w, 0)
	again.commit(scopeGlobal, "k", "second")
	fenceAll(t, w, []*client{again, other})
	text, _ := other.get(proc(w.Name, 0), "k")
	require.Equal(t, "second", text)
}
