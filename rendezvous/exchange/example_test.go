package exchange_test

import (
	"fmt"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Two nodes give each other what they know. In a job, the messages go over the launcher's connections.
func ExampleNode_Fence() {
	nodes := make([]*exchange.Node, 2)
	deliveries := make(chan func(), 8) // in order, and not by the sender itself
	hub := exchange.NewHub(len(nodes), func(to []int, m *exchange.Message) {
		for _, node := range to {
			deliveries <- func() { nodes[node].Receive(m) }
		}
	})
	defer hub.Close()
	for i := range nodes {
		nodes[i] = exchange.NewNode(i, func(m *exchange.Message) error {
			deliveries <- func() { hub.Receive(i, m) }
			return nil
		})
		defer nodes[i].Close(exchange.ErrClosed)
	}
	defer close(deliveries)
	go func() {
		for deliver := range deliveries {
			deliver()
		}
	}()
	done := make(chan [][]byte, len(nodes))
	for i, node := range nodes {
		node.Fence(exchange.Fence{
			ID: "start", Nodes: []int{0, 1}, Members: []world.Proc{{World: "w", Rank: world.AllRanks}},
			Blob: fmt.Appendf(nil, "node %d", i),
		}, func(blobs [][]byte, _ error) { done <- blobs })
	}
	for range nodes {
		fmt.Printf("%s\n", <-done)
	}
	// Output:
	// [node 0 node 1]
	// [node 0 node 1]
}
