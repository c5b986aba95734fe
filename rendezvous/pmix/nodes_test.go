package pmix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

var collecting = attr(keyCollect, true)

// fenceAll makes all ranks pass a fence.
func fenceAll(t *testing.T, w *world.World, ranks []*client, infos ...info) {
	t.Helper()
	tags := make([]uint32, len(ranks))
	for i, c := range ranks {
		tags[i] = c.ask(commandFence, fenceBody(everybody(w), infos...))
	}
	for i, c := range ranks {
		require.Equal(t, statusSuccess, c.wait(tags[i]).oneStatus())
	}
}

func (all *nodes) joinAll(w *world.World) []*client {
	ranks := make([]*client, len(w.Ranks))
	for rank := range ranks {
		ranks[rank] = all.join(w, rank)
	}
	return ranks
}

// commitScopes commits a key for each scope.
func commitScopes(c *client, rank int) {
	c.t.Helper()
	require.Equal(c.t, statusSuccess, c.status(commandCommit, func(e *encoder) {
		commitBody(e, scopeLocal, "near", fmt.Sprint("near", rank))
		commitBody(e, scopeRemote, "far", fmt.Sprint("far", rank))
		commitBody(e, scopeGlobal, "both", fmt.Sprint("both", rank))
	}))
}

func TestFenceCollectsForOtherHosts(t *testing.T) {
	w := spread("gorun-1", 4, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	for rank, c := range ranks {
		commitScopes(c, rank)
	}
	fenceAll(t, w, ranks, collecting)
	away := all.servers[1].spaces[w.Name].member(0).data.remote
	require.NotEmpty(t, away)
	require.Empty(t, all.servers[1].spaces[w.Name].member(0).data.local, "what is for its host does not travel")
	found, code := ranks[2].data(ranks[2].call(commandGet, getBody(proc(w.Name, 0), "far")))
	require.Equal(t, statusSuccess, code)
	require.Equal(t, map[string]string{"far": "far0", "both": "both0"}, found[proc(w.Name, 0)])

	// Later commits come with the next fence, and no other data does.
	ranks[0].commit(scopeGlobal, "later", "x")
	fenceAll(t, w, ranks, collecting)
	require.Greater(t, len(all.servers[1].spaces[w.Name].member(0).data.remote), len(away))
	text, _ := ranks[3].get(proc(w.Name, 0), "later")
	require.Equal(t, "x", text)
	here, there := all.servers[0].spaces[w.Name].member(0), all.servers[1].spaces[w.Name].member(0)
	require.Equal(t, here.data.remote, there.data.remote)
}

// A node cannot speak for ranks of another one.
func TestANodeSpeaksForItsOwnRanks(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	commitScopes(ranks[1], 1)
	fenceAll(t, w, ranks, collecting)
	var forged encoder
	forged.committed(proc(w.Name, 1), &store{epoch: 9, remote: []byte("x")}, 0)
	s := all.servers[1]
	s.node.Lock()
	s.mergeAll(&collective{nodes: []int{0, 1}}, [][]byte{forged.b, nil})
	s.node.Unlock()
	fenceAll(t, w, ranks, collecting)
	text, _ := ranks[0].get(proc(w.Name, 1), "far")
	require.Equal(t, "far1", text)

	answered := make(chan []byte)
	e := event{code: -1000, source: proc(w.Name, 1), to: rangeSession, alert: true}
	all.servers[0].cfg.Exchange.Request(1, eventService, e.encode(), func(b []byte, _ error) { answered <- b })
	<-answered
	require.Empty(t, s.events)

	forged = encoder{b: make([]byte, 9)} // a number, and a flag
	forged.proc(proc(w.Name, 1))
	forged.infoList(nil)
	s.constructed(&collective{nodes: []int{0}}, "g", [][]byte{forged.b})
	require.Empty(t, s.groups.kvals)
}

func TestDirectModex(t *testing.T) {
	w := spread("gorun-1", 2, 2)
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	tag := ranks[1].ask(commandGet, getBody(proc(w.Name, 0), "far"))
	other := ranks[1].ask(commandGet, getBody(proc(w.Name, 0), "far"))
	ranks[1].unanswered(tag)
	commitScopes(ranks[0], 0)
	for _, tag := range []uint32{tag, other} {
		found, code := ranks[1].data(ranks[1].wait(tag))
		require.Equal(t, statusSuccess, code)
		require.Equal(t, map[string]string{"far": "far0", "both": "both0"}, found[proc(w.Name, 0)])
	}
	fenceAll(t, w, ranks)
	require.Empty(t, all.servers[0].spaces[w.Name].member(1).data.remote, "nothing was collected")

	// The node has a value already, and returns it until the client requests a refresh.
	ranks[0].commit(scopeGlobal, "far", "newer")
	text, _ := ranks[1].get(proc(w.Name, 0), "far")
	require.Equal(t, "far0", text)
	text, _ = ranks[1].get(proc(w.Name, 0), "far", attr(keyRefresh, true))
	require.Equal(t, "newer", text)
	_, code := ranks[1].get(proc(w.Name, 0), "unknown", attr(keyImmediate, true))
	require.Equal(t, statusNotFound, code)
}

// If two agents run on one host, its ranks belong together.
func TestTwoAgentsOnOneHost(t *testing.T) {
	w := spread("gorun-1", 2, 1)
	w.Ranks[1].Node = 1
	all := start(t, 2, w)
	ranks := all.joinAll(w)
	for rank, c := range ranks {
		commitScopes(c, rank)
		job, _, _ := c.jobInfo(w)
		require.Equal(t, "0,1", job["pmix.lpeers"])
	}
	fenceAll(t, w, ranks, collecting)
	found, code := ranks[1].data(ranks[1].call(commandGet, getBody(proc(w.Name, 0), "near")))
	require.Equal(t, statusSuccess, code)
	require.Equal(t, map[string]string{"near": "near0", "both": "both0"}, found[proc(w.Name, 0)])
}

func TestStuckAcrossNodes(t *testing.T) {
	w := spread("gorun-1", 3, 3)
	all := start(t, 3, w)
	a := all.join(w, 0)
	tag := a.ask(commandFence, fenceBody(everybody(w)))
	a.unanswered(tag)
	all.servers[2].Ended(world.Proc{World: w.Name, Rank: 2})
	require.Equal(t, "stuck [0] 2", all.received.next(t))

	v := spread("gorun-2", 2, 2)
	for _, s := range all.servers {
		s.Add(v)
	}
	b := all.join(v, 0)
	get := b.ask(commandGet, getBody(proc(v.Name, 1), "k"))
	b.unanswered(get)
	all.servers[1].Ended(world.Proc{World: v.Name, Rank: 1})
	require.Equal(t, "stuck [0] 1", all.received.next(t))
	require.Equal(t, statusNotFound, b.wait(get).oneStatus())
}

func TestTwoWorlds(t *testing.T) {
	v, w := spread("gorun-1", 2, 2), spread("gorun-2", 2, 2)
	all := start(t, 2, v, w)
	parents, children := all.joinAll(v), all.joinAll(w)
	both := append(everybody(v), everybody(w)...)
	commitScopes(parents[0], 0)
	ranks := append(parents, children...)
	tags := make([]uint32, len(ranks))
	for i, c := range ranks {
		tags[i] = c.ask(commandFence, fenceBody(both, collecting))
	}
	for i, c := range ranks {
		require.Equal(t, statusSuccess, c.wait(tags[i]).oneStatus())
	}
	// A rank of another world gets all data, once.
	found, code := children[1].data(children[1].call(commandGet, getBody(proc(v.Name, 0), "far")))
	require.Equal(t, statusSuccess, code)
	require.Equal(t, "far0", found[proc(v.Name, 0)]["far"])
	require.Equal(t, "2", found[proc(v.Name, world.AllRanks)]["pmix.job.size"])
	require.Equal(t, "host1", found[proc(v.Name, 1)]["pmix.hname"])
	found, _ = children[1].data(children[1].call(commandGet, getBody(proc(v.Name, 0), "far")))
	require.Len(t, found, 1)
	text, _ := children[0].get(proc(v.Name, 0), "near")
	require.Equal(t, "near0", text, "worlds share hosts")
	found, _ = children[0].data(children[0].call(commandGet, getBody(proc(v.Name, world.AllRanks), "")))
	require.Len(t, found, 3)
	text, _ = children[0].get(proc(v.Name, 1), "pmix.hname")
	require.Equal(t, "host1", text)
}

func registration(codes ...status) func(*encoder) {
	return func(e *encoder) {
		e.oneSize(len(codes))
		if len(codes) > 0 {
			e.group(len(codes))
			for _, code := range codes {
				e.uint32(uint32(code))
			}
		}
		e.infoList(nil)
	}
}

func notification(code status, to dataRange, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.oneStatus(code)
		e.group(1)
		e.uint8(uint8(to))
		e.infoList(infos)
	}
}

func TestEvents(t *testing.T) {
	w, v := spread("gorun-1", 3, 3), spread("gorun-2", 1, 1)
	all := start(t, 3, w, v)
	ranks := all.joinAll(w)
	other := all.join(v, 0)
	register := func(c *client, codes ...status) {
		require.Equal(t, statusSuccess, c.status(commandRegisterEvents, registration(codes...)))
	}
	notify := func(code status, to dataRange, infos ...info) {
		require.Equal(t, statusSuccess, ranks[0].status(commandNotify, notification(code, to, infos...)))
	}
	// received returns the codes of the events that a client received.
	received := func(c *client) []status {
		c.call(commandQuery, func(e *encoder) { e.oneSize(0) })
		codes := []status{}
		for _, body := range c.received {
			d := decoder{b: body}
			require.Equal(t, uint8(commandNotify), d.oneUint8())
			codes = append(codes, d.oneStatus())
			require.Equal(t, proc(w.Name, 0), d.oneProc())
			d.infoList()
			require.NoError(t, d.err)
		}
		c.received = nil
		return codes
	}
	register(ranks[0], -1000)
	register(ranks[1], -1000, -1001)
	register(other)
	notify(-1000, rangeNamespace, attr("k", "v"))
	notify(-1001, rangeSession)
	notify(-1000, rangeLocal)
	notify(-1000, rangeProcLocal)
	notify(-1002, rangeGlobal, attr(keyEventNotDefault, true))
	notify(-1001, rangeCustom, attr(keyEventTargets, proc(w.Name, 2)))
	require.Empty(t, received(ranks[0]), "the sender is not notified")
	require.Equal(t, []status{-1000, -1001}, received(ranks[1]))
	require.Equal(t, []status{-1001, -1000}, received(other), "of another world, on the same host")
	require.Empty(t, received(ranks[2]))
	register(ranks[2], -1001)
	require.Equal(t, []status{-1001, -1001}, received(ranks[2]), "events from before it registered")
	_ = ranks[2].ask(commandDeregisterEvents, func(e *encoder) { e.oneStatus(-1001) })
	require.Empty(t, received(ranks[2])) // it has no reply, but the reply to the next request shows that it was read
	notify(-1001, rangeSession)
	require.Empty(t, received(ranks[2]))
}
