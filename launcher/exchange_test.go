package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/transport"
	"gorun/launcher/internal/wire"
	"gorun/rendezvous/exchange"
)

// hubOf is the middle of some nodes, with the far ends of their links.
func hubOf(nodes, attempt int) (*exchangeHub, []*wire.Link) {
	var list []*node
	var far []*wire.Link
	for i := range nodes {
		near, agent := transport.Local()
		list, far = append(list, &node{number: i, link: near}), append(far, agent)
	}
	return newExchangeHub(attempt, list), far
}

// hear reads what a node is told.
func hear(t *testing.T, link *wire.Link) exchange.Message {
	f, err := link.Read()
	require.NoError(t, err)
	require.Equal(t, wire.TypeExchange, f.Type)
	var m wire.Exchange
	require.NoError(t, f.Decode(&m))
	assert.Equal(t, 3, m.Attempt)
	return m.Message
}

func come(attempt int, blob string) *wire.Exchange {
	return &wire.Exchange{Attempt: attempt, Message: exchange.Message{Kind: exchange.Come, ID: "f", Nodes: []int{0, 1}, Blobs: [][]byte{[]byte(blob)}}}
}

func TestNothingIsMadeForAJobThatSaysNothing(t *testing.T) {
	x, _ := hubOf(2, 3)
	x.begin(x.nodes[0])
	x.nodeLost(x.nodes[1])
	x.receive(x.nodes[0], come(2, "of an older attempt"))
	assert.Nil(t, x.hub)
	x.close()
	x.receive(x.nodes[0], come(3, "too late"))
	assert.Nil(t, x.hub)
}

// The ranks of a node may be at a fence before another was told to start its own.
func TestNodesHearOfOthersAfterTheirStart(t *testing.T) {
	x, far := hubOf(2, 3)
	x.begin(x.nodes[0])
	x.receive(x.nodes[0], come(3, "a"))
	require.NoError(t, x.nodes[1].link.Send(&wire.Start{Attempt: 3}))
	x.begin(x.nodes[1])
	x.receive(x.nodes[1], come(3, "b"))
	f, err := far[1].Read()
	require.NoError(t, err)
	require.Equal(t, wire.TypeStart, f.Type)
	for _, link := range far {
		assert.Equal(t, exchange.Watch, hear(t, link).Kind)
		assert.Equal(t, exchange.Message{Kind: exchange.Merged, ID: "f", Blobs: [][]byte{[]byte("a"), []byte("b")}, Last: true}, hear(t, link))
	}
	x.close()
}

func TestNodesLostBeforeAnybodySaidAnything(t *testing.T) {
	x, far := hubOf(2, 3)
	x.begin(x.nodes[0])
	x.nodeLost(x.nodes[1])
	x.receive(x.nodes[0], come(3, "a"))
	assert.Equal(t, exchange.Watch, hear(t, far[0]).Kind)
	assert.Equal(t, exchange.Message{Kind: exchange.Failed, ID: "f", Error: "node 1 is lost", Lost: true}, hear(t, far[0]))
	x.close()
}
