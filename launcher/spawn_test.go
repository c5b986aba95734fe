package launcher

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/env/plan"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
	"gorun/rendezvous/world"
)

// growingHead drives a job of one rank on each of two nodes, and returns the remote ends of their links.
func growingHead(t *testing.T) (*head, []*wire.Link) {
	t.Helper()
	x, nodes, far := hubOf(2, 0)
	sup, _ := job.NewSupervisor(job.SupervisorConfig{Nodes: [][]int{{0}, {1}}, StartedAt: time.Now(), Grace: time.Minute})
	sup.Next(job.Running{Node: 0, PIDs: map[int]int{0: 10}})
	sup.Next(job.Running{Node: 1, PIDs: map[int]int{1: 11}})
	h := &head{
		call: &call{}, nodes: nodes, exchange: x, over: make(chan struct{}),
		streams: streams{credits: make([]outputCredit, 2)}, supervision: supervision{sup: sup},
	}
	h.console = output.NewConsole(output.Config{
		Stdout: output.Destination{W: &bytes.Buffer{}},
		Stderr: output.Destination{W: &bytes.Buffer{}},
	})
	h.plan.Store(&job.Plan{
		Nodes: []job.Node{{Name: "n0"}, {Name: "n1"}}, Apps: make([]job.AppRun, 1),
		Ranks: []job.Rank{{}, {Process: spec.Process{Rank: 1, Node: 1}}},
	})
	h.planSpawn = func(p *job.Plan, _ job.SpawnRequest, _ int) (*job.Plan, *job.Spawned, error) {
		next := *p
		r := job.Rank{Process: spec.Process{Rank: 2, Spawned: true, Node: 0}}
		next.Ranks = append(next.Ranks[:2:2], r)
		return &next, &job.Spawned{
			World: world.World{Name: "w-s1"}, Ranks: []job.Rank{r},
			Nodes: make([][]plan.Variable, 2),
		}, nil
	}
	return h, far
}

// Every node gets the new ranks, but the launcher waits only for nodes that start some. On others the job may have
// ended.
func TestSpawnWaitsForNodesWithNewRanks(t *testing.T) {
	h, far := growingHead(t)
	h.onSpawn(h.nodes[0], wire.Spawn{Call: 7})
	for i, link := range far {
		f, err := link.Read()
		require.NoError(t, err)
		var grow wire.Grow
		require.NoError(t, f.Decode(&grow))
		assert.Equal(t, "w-s1", grow.World.Name)
		assert.Len(t, grow.Ranks, 1-i)
	}
	h.onGrown(h.nodes[1], wire.Grown{Number: 1, Ranks: []wire.RankPID{{Rank: 0, PID: 99}}, Error: "the job ends"})
	assert.Equal(t, 10, h.sup.PID(0), "a node cannot answer for another")
	require.Len(t, h.spawns.pending, 1)
	h.onGrown(h.nodes[0], wire.Grown{Number: 1, Ranks: []wire.RankPID{{Rank: 2, PID: 12}}})
	assert.Empty(t, h.spawns.pending)
	assert.Equal(t, 12, h.sup.PID(2))
	f, err := far[0].Read()
	require.NoError(t, err)
	var answer wire.Spawned
	require.NoError(t, f.Decode(&answer))
	assert.Equal(t, wire.Spawned{Call: 7, World: "w-s1"}, answer)
}

// A spawn too large for one frame is refused before it has any effect.
func TestSpawnTooLargeForFrame(t *testing.T) {
	h, far := growingHead(t)
	plans := h.planSpawn
	h.planSpawn = func(p *job.Plan, edit job.SpawnRequest, number int) (*job.Plan, *job.Spawned, error) {
		next, more, err := plans(p, edit, number)
		more.Common = []plan.Variable{{Name: "MUCH", Value: strings.Repeat("x", wire.MaxBody)}}
		return next, more, err
	}
	h.onSpawn(h.nodes[1], wire.Spawn{Call: 7})
	f, err := far[1].Read()
	require.NoError(t, err)
	require.Equal(t, wire.TypeSpawned, f.Type)
	var answer wire.Spawned
	require.NoError(t, f.Decode(&answer))
	assert.Contains(t, answer.Error, "environment and arguments of 1 rank are too large: wire: a grow frame of")
	assert.Equal(t, []int{1, 1}, h.sup.NumRunning())
	assert.Len(t, h.plan.Load().Ranks, 2)
	assert.Empty(t, h.spawns.pending)
}

// Ranks that a node could not start are not among its ranks.
func TestFailedSpawnLeavesNoRanks(t *testing.T) {
	h, _ := growingHead(t)
	h.plan.Load().Nodes[0].Ranks = []int{0, 2}
	h.onSpawn(h.nodes[1], wire.Spawn{Call: 7})
	h.onGrown(h.nodes[0], wire.Grown{Number: 1, Error: "no room"})
	assert.Equal(t, []int{0}, h.plan.Load().Nodes[0].Ranks)
}

// The last frames of an attempt may arrive after its end.
func TestLateFramesOfAttempt(t *testing.T) {
	_, nodes, far := hubOf(1, 0)
	n := nodes[0]
	for _, m := range []wire.Message{
		&wire.Grown{Number: 1}, &wire.Spawn{Call: 1}, &wire.MPIEvent{Stuck: &spec.MPIStuck{}},
		&wire.Exchange{}, &wire.Opened{Opened: spec.Opened{Addr: "here"}},
	} {
		require.NoError(t, far[0].Send(m))
	}
	n.listen()
	var opened wire.Opened
	require.NoError(t, n.receive(&opened))
	assert.Equal(t, "here", opened.Addr)
	assert.Empty(t, n.answers)
	require.NoError(t, n.link.Close())
}

// A spawned rank shares a local rank number with another rank, but not its log files.
func TestSpawnedRanksHaveNoHeadLogs(t *testing.T) {
	h, _ := growingHead(t)
	h.plan.Store(&job.Plan{
		Ranks: []job.Rank{{Process: spec.Process{LocalRank: 3, Spawned: true}}},
		Logs:  &job.Logs{Tee: []job.Streams{0}},
	})
	x := &headLogs{head: h} // without log files of any node
	assert.True(t, x.write(h.nodes[0], 0, output.Stdout, []byte("shown")))
	x.end(h.nodes[0], 0, output.Stdout)
	assert.Empty(t, x.last(0))
}
