package launcher

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// hubOf returns an exchange hub, its nodes and the remote ends of their links.
func hubOf(number, attempt int) (*exchangeHub, []*node, []*wire.Link) {
	var list []*node
	var far []*wire.Link
	for i := range number {
		near, agent := reach.Local()
		list, far = append(list, &node{number: i, link: near}), append(far, agent)
	}
	anyone := func(*node, world.Proc) bool { return true }
	return newExchangeHub(attempt, list, anyone), list, far
}

// receive reads the next message to a node.
func receive(t *testing.T, link *wire.Link) exchange.Message {
	f, err := link.Read()
	require.NoError(t, err)
	require.Equal(t, wire.TypeExchange, f.Type)
	var m wire.Exchange
	require.NoError(t, f.Decode(&m))
	assert.Equal(t, 3, m.Attempt)
	return m.Message
}

func come(attempt int, blob string) wire.Exchange {
	return wire.Exchange{Attempt: attempt, Message: exchange.Message{
		Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1},
		Blobs: [][]byte{[]byte(blob)},
	}}
}

func TestNoExchangeWithoutRequests(t *testing.T) {
	x, nodes, far := hubOf(2, 3)
	x.NodeLost(1)
	x.onExchange(nodes[0], come(2, "of an older attempt"))
	x.close()
	x.onExchange(nodes[0], come(3, "too late"))
	for i, n := range nodes {
		require.NoError(t, n.link.Close())
		_, err := far[i].Read()
		require.Error(t, err)
	}
}

// Ranks of a node may reach a fence or spawn ranks before another node gets its Start message.
func TestFramesOfOthersFollowStart(t *testing.T) {
	for _, tc := range []struct {
		said wire.Message
		want wire.Type
	}{{new(come(0, "a")), wire.TypeExchange}, {&wire.Spawn{Call: 7}, wire.TypeGrow}} {
		synctest.Test(t, func(t *testing.T) {
			h, far := growingHead(t)
			h.startSent = make(chan struct{})
			require.NoError(t, far[0].Send(tc.said))
			f, err := h.nodes[0].link.Read()
			require.NoError(t, err)
			go func() { assert.NoError(t, h.handleFrame(h.nodes[0], f)) }()
			synctest.Wait()
			assert.Empty(t, h.spawns.pending)
			require.NoError(t, h.startRanks())
			synctest.Wait()
			for _, link := range far {
				for _, want := range []wire.Type{wire.TypeStart, tc.want} {
					f, err := link.Read()
					require.NoError(t, err)
					require.Equal(t, want, f.Type)
				}
			}
		})
	}
}

func TestFenceOverTwoNodes(t *testing.T) {
	x, nodes, far := hubOf(2, 3)
	x.onExchange(nodes[0], come(3, "a"))
	x.onExchange(nodes[1], come(3, "b"))
	for _, link := range far {
		assert.Equal(t, exchange.Watch, receive(t, link).Kind)
		assert.Equal(t, exchange.Message{
			Kind: exchange.Merged, ID: "f", Blobs: [][]byte{[]byte("a"), []byte("b")},
			Last: true,
		}, receive(t, link))
	}
	x.close()
}

// All ranks of a node may end before any rank uses MPI. A rank that meets them at a fence, or queries that node,
// would wait forever.
func TestExchangeWithEndedNode(t *testing.T) {
	x, nodes, far := hubOf(2, 3)
	missing := world.Proc{World: "w", Rank: 1}
	x.NodeExited(1, []world.Proc{missing})
	fence := come(3, "a")
	fence.Message.Members = []world.Proc{{World: "w", Rank: world.AllRanks}}
	x.onExchange(nodes[0], fence)
	assert.Equal(t, exchange.Watch, receive(t, far[0]).Kind)
	assert.Equal(t, exchange.Message{Kind: exchange.Failed, ID: "f", Members: []world.Proc{missing}}, receive(t, far[0]))
	x.onExchange(nodes[0],
		wire.Exchange{Attempt: 3, Message: exchange.Message{Kind: exchange.Request, Number: 7, To: 1, Service: "modex"}})
	answer := receive(t, far[0])
	assert.Equal(t, exchange.Reply, answer.Kind)
	assert.NotEmpty(t, answer.Error)
	x.close()
}

// The launcher ends the job for a lost node before ranks on other nodes fail because of the loss.
func TestNodeLossPrecedesFailedFences(t *testing.T) {
	h, far := growingHead(t)
	for _, n := range h.nodes {
		n.lost, n.answers = make(chan struct{}), make(chan wire.Frame)
	}
	h.exchange.onExchange(h.nodes[0], come(0, "a"))
	h.nodes[1].markLost(errors.New("cut"))
	h.watchLink(h.nodes[1])
	// the first frame is the hub's subscription to ends
	for _, want := range []wire.Type{wire.TypeExchange, wire.TypeSignal, wire.TypeExchange} {
		f, err := far[0].Read()
		require.NoError(t, err)
		assert.Equal(t, want, f.Type)
	}
	h.stopTimers()
}

func TestExchangeWithLostNode(t *testing.T) {
	x, nodes, far := hubOf(2, 3)
	x.NodeLost(1)
	x.onExchange(nodes[0], come(3, "a"))
	assert.Equal(t, exchange.Watch, receive(t, far[0]).Kind)
	assert.Equal(t, exchange.Message{Kind: exchange.Failed, ID: "f", Error: "node 1 is lost", Lost: true},
		receive(t, far[0]))
	x.close()
}
