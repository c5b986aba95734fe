package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// nodesJob has ranks on several nodes and in one world or two. The second node has a setting of its own.
func nodesJob(nodes, worlds int) Inputs {
	in := mpiJob(8, "OMP_NUM_THREADS=2")
	in.Nodes = in.Nodes[:0]
	for node := range nodes {
		in.Nodes = append(in.Nodes, Node{
			Threads: 1 + node, Remote: node > 0,
			Endpoint: Endpoint{Interface: fmt.Sprint("eth", node), Address: fmt.Sprint("10.0.0.", node)},
			Crowded:  node == 1, Part: fmt.Sprint(node),
		})
	}
	in.MPI.SeveralHosts = nodes > 1
	in.MPI.Worlds = in.MPI.Worlds[:0]
	for w := range worlds {
		in.MPI.Worlds = append(in.MPI.Worlds, World{Name: fmt.Sprint("w", w), Size: 8 / worlds, Apps: []int{8 / worlds}})
	}
	for i := range in.Ranks {
		r := &in.Ranks[i]
		r.Node = i * nodes / len(in.Ranks)
		r.MPI = InWorld{
			World: i % worlds, Rank: i / worlds, LocalSize: (8/nodes + i%worlds) / worlds,
			Host: fmt.Sprint("node", r.Node),
		}
	}
	if nodes > 1 {
		in.Nodes[1].Environ = []string{"I_MPI_THREAD_YIELD=0", "NCCL_SOCKET_IFNAME=lo"}
		in.Nodes[1].Joined = true
	}
	return in
}

// Computing a value once for each node has the same result as computing it for each rank.
func TestValuesOfNodes(t *testing.T) {
	for _, nodes := range []int{1, 2, 4} {
		for _, worlds := range []int{1, 2} {
			in := nodesJob(nodes, worlds)
			want := eachRankAsked(t, in)
			assert.Equal(t, want, build(t, in), "%d nodes, %d worlds", nodes, worlds)
		}
	}
}

// eachRankAsked builds the environment as if no rule had a common value for a node.
func eachRankAsked(t *testing.T, in Inputs) Environment {
	for _, r := range rules() {
		before := *r
		if r.differs == ofNode {
			r.differs = ofRank
		}
		defer func() { *r = before }()
	}
	return build(t, in)
}

// Build computes a node's value for only one of its ranks.
func TestNodesAreAskedOnce(t *testing.T) {
	in, asked := nodesJob(2, 1), 0
	for _, r := range rules() {
		if r.differs != ofNode {
			continue
		}
		before := *r
		r.value = func(p view) (string, bool) { asked++; return before.value(p) }
		defer func() { *r = before }()
	}
	build(t, in)
	perNode := 0
	for _, r := range rules() {
		if r.differs == ofNode {
			perNode++
		}
	}
	assert.GreaterOrEqual(t, perNode, 7)
	assert.LessOrEqual(t, asked, perNode*(1+2+2), "once to compare, once for each node, and what it finds")
}
