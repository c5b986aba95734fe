package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// attrition is a simulation whose nodes are lost one after the other, at random, and come back later.
type attrition struct {
	*simulation
	own   int // nodes with ranks
	away  time.Duration
	rand  *rand.Rand
	mu    sync.Mutex // guards the agents in simulation, too
	gone  map[int]time.Time
	ranks map[int][]int // by node, in the attempt that runs
	old   []*simAgent   // of lost nodes that are back
}

// reach connects the launcher with an agent that has never been lost, or with a new one once its node is back.
func (a *attrition) reach(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := nodeIndex(h.Name)
	if since, lost := a.gone[index]; lost {
		if time.Since(since) < a.away {
			return nil, errors.New("no route to host")
		}
		delete(a.gone, index)
		a.old = append(a.old, a.agents[index])
		a.agents[index] = a.agent(index)
	}
	return a.simulation.reach(ctx, h)
}

// running checks that nodes which were there before have the ranks that they had.
func (a *attrition) running(t *testing.T, p *job.Plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.Len(t, p.Nodes, a.own)
	before := a.ranks
	a.ranks = map[int][]int{}
	for _, n := range p.Nodes {
		index := nodeIndex(n.Name)
		a.ranks[index] = n.Ranks
		if had := before[index]; had != nil {
			assert.Equal(t, had, n.Ranks, n.Name)
		}
	}
}

func nodeIndex(name string) (index int) {
	_, _ = fmt.Sscanf(name, "node%d", &index)
	return index
}

// lose ends the link of a node with ranks.
func (a *attrition) lose() {
	a.mu.Lock()
	defer a.mu.Unlock()
	with := slices.Sorted(maps.Keys(a.ranks))
	victim := with[a.rand.IntN(len(with))]
	a.gone[victim] = time.Now()
	delete(a.ranks, victim)
	agent := a.agents[victim]
	if a.rand.IntN(4) == 0 { // found out only by its silence
		agent.down.lose()
		agent.up.lose()
		return
	}
	_ = agent.link.Close()
}

// One node in a hundred is lost each minute, and is away for two. The launcher replaces each by a spare, in one
// process, and no other node ever gets another node's ranks.
func TestSimulatedLosses(t *testing.T) {
	nodes, losses := testneeds.Count(60, 1000), testneeds.Count(12, 30)
	seed := testneeds.Rand(t).Uint64()
	used := processTime()
	synctest.Test(t, func(t *testing.T) {
		spares := max(8, nodes/10)
		a := &attrition{
			simulation: newSimulation(t, nodes+spares, time.Millisecond), own: nodes, away: 2 * time.Minute,
			rand: rand.New(rand.NewPCG(seed, 0)), gone: map[int]time.Time{},
		}
		spec := a.spec()
		spec.NumNodes, spec.MinNodes, spec.Restarts.NodeLosses = nodes, nodes, losses
		left := losses
		started := func(p *job.Plan, _ []int) {
			a.running(t, p)
			if left--; left < 0 {
				a.finish()
				return
			}
			time.AfterFunc(time.Duration(a.rand.ExpFloat64()*float64(time.Minute)*100/float64(nodes)), a.lose)
		}
		began := time.Now()
		result, err := Run(t.Context(), spec, WithReach(a.reach), WithOutput(io.Discard, io.Discard),
			WithStarted(started))
		require.NoError(t, err)
		for _, agent := range append(a.old, a.agents...) { // when their leases expire
			agent.down.end()
			agent.up.end()
		}
		a.over.Wait()
		assert.Zero(t, result.ExitCode, Explain(result))
		assert.Len(t, result.Attempts, losses)
		t.Logf("%d nodes lost %d times in %v", nodes, losses, time.Since(began))
	})
	t.Logf("CPU time %v", processTime()-used)
}
