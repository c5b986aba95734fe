package world_test

import (
	"fmt"

	"gorun/rendezvous/world"
)

// Two nodes with two ranks each.
func ExampleWorld() {
	w := world.World{Name: "0d5e83", Hosts: []string{"node1", "node2"}, Apps: []world.App{{NumRanks: 4}}}
	for i := range 4 {
		w.Ranks = append(w.Ranks, world.Rank{Job: i, Host: i / 2, Node: i / 2, LocalRank: i % 2, NodeRank: i % 2})
	}
	last := w.Ranks[3]
	fmt.Println(w.Hosts[last.Host], last.LocalRank)
	// Output: node2 1
}
