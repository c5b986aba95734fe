package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

func TestExchangeIsSmall(t *testing.T) {
	m := &Exchange{Message: exchange.Message{Kind: exchange.Enter, ID: "f", Blobs: [][]byte{make([]byte, 800)}}}
	for node := range 64 {
		m.Message.Nodes = append(m.Message.Nodes, node)
	}
	for rank := range 512 {
		m.Message.Members = append(m.Message.Members,
			world.Proc{World: "a-world-with-a-name-of-48-bytes-as-they-really-have", Rank: rank})
	}
	size := len(AppendControl(nil, m))
	assert.Less(t, size, 800+64+512+100, "a byte for each node and each rank")
}

func TestEmptyBlobsHaveTheirPlace(t *testing.T) {
	sent := &Exchange{Message: exchange.Message{Blobs: [][]byte{nil, []byte("x"), nil}}}
	var got Exchange
	require.NoError(t, readMessage(appendMessage(nil, sent), &got))
	assert.Equal(t, sent, &got)
}

// What takes a byte in a frame may not take dozens in memory without end: the hub looks at how
// many there are only then.
func TestListsAreBounded(t *testing.T) {
	for name, m := range map[string]func(n int) exchange.Message{
		"nodes":   func(n int) exchange.Message { return exchange.Message{Nodes: make([]int, n)} },
		"members": func(n int) exchange.Message { return exchange.Message{Members: make([]world.Proc, n)} },
		"blobs":   func(n int) exchange.Message { return exchange.Message{Blobs: make([][]byte, n)} },
	} {
		whole := m(maxList + 1)
		assert.ErrorIs(t, readMessage(appendMessage(nil, &whole), new(exchange.Message)), errBroken, name)
	}
	nodes := make([]int, maxList)
	for i := range nodes {
		nodes[i] = i
	}
	assert.NoError(t, readMessage(appendMessage(nil, &exchange.Message{Nodes: nodes}), new(exchange.Message)))
}

// FuzzExchange has a hub and a node take any message: neither may break.
func FuzzExchange(f *testing.F) {
	procs := []world.Proc{{World: "w", Rank: world.AllRanks}, {World: "w", Rank: 1}, {World: "v", Rank: 1}}
	for _, m := range []exchange.Message{
		{Kind: exchange.Enter, ID: "f", Nodes: []int{0, 1}, Members: procs, Blobs: [][]byte{[]byte("x")}},
		{Kind: exchange.Merged, ID: "f", First: 0, Blobs: [][]byte{nil, []byte("y")}, Last: true},
		{Kind: exchange.Failed, ID: "f", Members: procs[1:2], Error: "no"},
		{Kind: exchange.Request, Number: 1, From: 1, To: exchange.Head, Service: "names", Blobs: [][]byte{{2, 4, 2, 0}}},
		{Kind: exchange.Reply, Number: 1, From: 0, To: 1, Error: "no"},
		{Kind: exchange.Watch},
		{Kind: exchange.Exited, Members: procs},
		{Kind: exchange.Withdraw, ID: "f", Entered: true},
	} {
		f.Add(appendMessage(nil, &Exchange{Message: m}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Exchange
		if readMessage(b, &m) != nil {
			return
		}
		require.NoError(t, readMessage(appendMessage(nil, &m), &again))
		require.Equal(t, m, again)
		hub := exchange.NewHub(3, func([]int, *exchange.Message) {})
		exchange.ServeNames(hub)
		node := exchange.NewNode(1, func(*exchange.Message) error { return nil })
		node.Fence(exchange.Fence{ID: "f", Nodes: []int{0, 1}}, func([][]byte, error) {})
		node.Request(0, "s", nil, func([]byte, error) {})
		hub.Receive(1, &again.Message)
		node.Receive(&m.Message)
		node.Close(nil)
		hub.Close()
	})
}
