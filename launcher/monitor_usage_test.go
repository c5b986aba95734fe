package launcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// asked returns the most recent questions to the nodes.
func asked(t *testing.T, far []*wire.Link) (list []wire.Usage) {
	t.Helper()
	for _, link := range far {
		f, err := link.Read()
		require.NoError(t, err)
		var q wire.Usage
		require.NoError(t, f.Decode(&q))
		list = append(list, q)
	}
	return list
}

// A slow query does not delay a status query, and each answer goes to its own question.
func TestQueriesOfKindsOverlap(t *testing.T) {
	h, far := growingHead(t)
	var u queries
	slow := make(chan []answer[wire.Used])
	go func() {
		answers, _ := u.run(t.Context(), h, queryStacks)
		slow <- answers
	}()
	stacks := asked(t, far)
	assert.True(t, stacks[0].Stacks && stacks[1].Stacks)
	quick := make(chan []rankUsage)
	go func() {
		answers, silent := u.run(t.Context(), h, queryUsage)
		assert.Empty(t, silent)
		quick <- h.usages(answers)
	}()
	looks := asked(t, far)
	assert.NotEqual(t, stacks[0].Call, looks[0].Call)
	for i, n := range h.nodes {
		m := wire.Used{
			Call: looks[i].Call, At: time.Now(),
			Ranks: []wire.RankUsage{{Activity: spec.Activity{Rank: i}, Memory: int64(i)}},
		}
		u.receive(n, wire.Used{Call: 99, Ranks: m.Ranks})
		u.receive(n, m)
	}
	used := <-quick
	require.Len(t, used, 2)
	assert.Equal(t, []int64{0, 1}, []int64{used[0].Memory, used[1].Memory})
	again, _ := u.run(t.Context(), h, queryUsage)
	assert.Equal(t, used, h.usages(again), "nobody is asked again so soon")
	u.receive(h.nodes[1], wire.Used{Call: stacks[1].Call})
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.pending[stacks[1].Call]) == 0
	}, time.Minute, time.Millisecond)
	u.receive(h.nodes[1], wire.Used{Call: stacks[1].Call}) // one answer is enough
	u.receive(h.nodes[0], wire.Used{Call: stacks[0].Call})
	answers := <-slow
	require.Len(t, answers, 2)
	assert.Same(t, h.nodes[0], answers[0].node, "in their order, not as they came")
	assert.Empty(t, u.pending)
}

// Output that a rank writes byte by byte takes no more memory than the same output in one write.
func TestFollowerJoinsPieces(t *testing.T) {
	f := &follower{wants: func(int) bool { return true }, wake: make(chan struct{}, 1)}
	for range 3 {
		f.write(0, 1, []byte("ab"))
	}
	f.write(0, 2, []byte("c"))
	f.write(0, 1, []byte("d"))
	pieces, overflow := f.drain()
	assert.False(t, overflow)
	assert.Equal(t, []piece{
		{rankStream{0, 1}, []byte("ababab")},
		{rankStream{0, 2}, []byte("c")},
		{rankStream{0, 1}, []byte("d")},
	}, pieces)
	f.write(0, 1, make([]byte, maxBacklog))
	f.write(0, 1, []byte("x"))
	pieces, overflow = f.drain()
	assert.True(t, overflow)
	assert.Empty(t, pieces)
}

func TestNoNCCL(t *testing.T) {
	h, _ := growingHead(t)
	h.nodes[0].name, h.nodes[1].name = "node1", "node2"
	by := func(node int, addr, why string) answer[wire.Used] {
		return answer[wire.Used]{h.nodes[node], wire.Used{RASAddr: addr, RASError: why}}
	}
	for _, tc := range []struct {
		answers []answer[wire.Used]
		want    string
	}{
		{nil, "NCCL did not answer on any host"},
		{[]answer[wire.Used]{by(0, "localhost:7", "a\x1b"), by(1, "localhost:7", "a\x1b")}, "NCCL at " +
			"localhost:7: a^["},
		{[]answer[wire.Used]{by(0, "", "off"), by(1, "x:7", "b")}, "on node1 off; on node2 NCCL at x:7: b"},
	} {
		assert.Equal(t, tc.want, noNCCL(tc.answers))
	}
}

// RAS reports of a launch without findings, with garbage, or with an impossible size are handled.
func TestNCCLLinesWithoutFindings(t *testing.T) {
	h, _ := growingHead(t)
	h.plan.Store(&job.Plan{Nodes: make([]job.Node, 2), Ranks: []job.Rank{{}, {Process: spec.Process{Rank: 1, Node: 1}}}})
	status, known := h.rasStatus(
		[][]byte{
			[]byte(`{"version":"2.26.2","communicators":[{"hash":"0x1","size":2,"named":true}]}`), []byte("nonsense"),
		})
	require.True(t, known)
	assert.Equal(t, []string{"NCCL 2.26.2, 1 communicator", "nothing remarkable"}, ncclLines(&status, h.rasView()))
	_, known = h.rasStatus([][]byte{nil})
	require.False(t, known)
	endless := `{"communicators":[{"hash":"0x1","size":4611686018427387904}]}` // this once used all memory
	_, known = h.rasStatus([][]byte{[]byte(endless)})
	assert.False(t, known)
}
