package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// attrition is a simulation whose nodes are lost one after the other, at random, and come back later.
type attrition struct {
	*simulation
	own   int // nodes with ranks
	least int // how many of these are needed
	away  time.Duration
	rand  *rand.Rand
	mu    sync.Mutex // guards the agents in simulation, too
	gone  map[int]time.Time
	ranks map[int][]int // by node, in the attempt that runs
}

// reach connects the launcher with a new agent, unless the node is lost and not back yet.
func (a *attrition) reach(ctx context.Context, h hosts.Host) (io.ReadWriteCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := nodeIndex(h.Name)
	if since, lost := a.gone[index]; lost && time.Since(since) < a.away {
		return nil, errors.New("no route to host")
	}
	delete(a.gone, index)
	a.agents[index] = a.agent(index)
	return a.simulation.reach(ctx, h)
}

// running checks that there are enough nodes, each once, and that those which were there before have the ranks that
// they had if none has to make up for others.
func (a *attrition) running(t *testing.T, p *job.Plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.GreaterOrEqual(t, len(p.Nodes), a.least)
	before := a.ranks
	a.ranks = map[int][]int{}
	for _, n := range p.Nodes {
		index := nodeIndex(n.Name)
		assert.NotContains(t, a.ranks, index, "%s has two agents", n.Name)
		a.ranks[index] = n.Ranks
		if had := before[index]; had != nil && a.least == a.own {
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
	if a.away == 0 || a.rand.IntN(4) == 0 { // found out only by its silence
		agent.down.lose()
		agent.up.lose()
		time.AfterFunc(time.Hour, func() { _ = agent.link.Close() }) // its lease is long over
		return
	}
	_ = agent.link.Close()
}

// wearDown runs a job that loses a node after a mean time, and ends after a number of losses.
func wearDown(t *testing.T, own, least, spares int, mean, away time.Duration, losses int) {
	r, failed := testneeds.Rand(t), filepath.Join(t.TempDir(), "hosts.json")
	used := processTime()
	synctest.Test(t, func(t *testing.T) {
		a := &attrition{
			simulation: newSimulation(t, own+spares, time.Millisecond), own: own, least: least, away: away, rand: r,
			gone: map[int]time.Time{},
		}
		spec := a.spec()
		spec.NumNodes, spec.MinNodes, spec.Restarts.NodeLosses = own, least, losses
		if away > 0 { // then it waits for hosts
			spec.Restarts.Max = 1
		}
		left := losses
		result := a.simulation.run(t, spec, Options{
			reacher:    Reach(a.reach),
			Quarantine: failed,
			Started: func(p *job.Plan, _ []int) {
				a.running(t, p)
				if left--; left < 0 {
					a.finish()
					return
				}
				time.AfterFunc(time.Duration(a.rand.ExpFloat64()*float64(mean)), a.lose)
			},
		})
		assert.Zero(t, result.ExitCode, Explain(result))
		assert.Len(t, result.Attempts, losses)
	})
	t.Logf("CPU time %v", processTime()-used)
}

// One node in a hundred is lost each minute, and is away for two. The launcher replaces each by a spare, in one
// process, and no other node ever gets another node's ranks.
func TestSimulatedLosses(t *testing.T) {
	nodes := testneeds.Count(60, 1000)
	mean := 100 * time.Minute / time.Duration(nodes)
	wearDown(t, nodes, nodes, max(8, nodes/10), mean, 2*time.Minute, testneeds.Count(12, 30))
}

// Without a spare the job goes on with one node less, and with those that are back when it would have too few.
func TestSimulatedLossesWithoutSpares(t *testing.T) { wearDown(t, 4, 3, 0, 25*time.Minute, 0, 6) }

// All hosts end in quarantine. The job uses them, as it needs them.
func TestSimulatedLossesInQuarantine(t *testing.T) {
	wearDown(t, 2, 2, 1, time.Minute, 0, 12)
	wearDown(t, 4, 4, 2, time.Minute, 90*time.Second, 30)
}

// A host that comes and goes restarts a job that may grow less and less often, until it has stayed for an hour.
func TestSimulatedGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attrition{simulation: newSimulation(t, 2, time.Millisecond), away: time.Second, gone: map[int]time.Time{}}
		spec := a.spec()
		spec.NumNodes, spec.MinNodes, spec.Grow = 2, 1, true
		var alone []time.Duration
		var since time.Time
		result := a.simulation.run(t, spec, Options{
			reacher: Reach(a.reach),
			Started: func(p *job.Plan, _ []int) {
				if len(p.Nodes) == 1 {
					since = time.Now()
					return
				}
				if !since.IsZero() {
					alone = append(alone, time.Since(since).Round(10*time.Second))
				}
				stay := time.Minute
				switch len(alone) {
				case 3:
					stay = 2 * time.Hour
				case 4:
					a.finish()
					return
				}
				time.AfterFunc(stay, func() {
					a.mu.Lock()
					defer a.mu.Unlock()
					a.gone[1] = time.Now()
					_ = a.agents[1].link.Close()
				})
			},
		})
		assert.Zero(t, result.ExitCode, Explain(result))
		assert.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 0}, alone)
		assert.Len(t, result.Attempts, 8)
	})
}

// A host that is back while ranks run is a spare for the next loss, whose ranks it takes: the others keep theirs. So is
// the host of a spare that was lost.
func TestSimulatedReturnAsSpare(t *testing.T) {
	for _, own := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			a := &attrition{simulation: newSimulation(t, 3, time.Millisecond), away: 5 * time.Second, gone: map[int]time.Time{}}
			spec := a.spec()
			spec.NumNodes, spec.MinNodes, spec.Restarts.NodeLosses = own, 1, 9
			lose := func(index int) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.gone[index] = time.Now()
				_ = a.agents[index].link.Close()
			}
			var said []string
			var plans [][]string
			result := a.simulation.run(t, spec, Options{reacher: Reach(a.reach), Notices: func(n Notice) string {
				said = append(said, n.Text)
				return n.Text
			}, Started: func(p *job.Plan, _ []int) {
				switch plans = append(plans, p.Hosts()); len(plans) {
				case 1:
					lose(0)
				case 2:
					time.AfterFunc(time.Minute, func() { lose(0) })
					time.AfterFunc(10*time.Minute, func() { lose(1) })
				default:
					a.finish()
				}
			}})
			assert.Zero(t, result.ExitCode, Explain(result))
			second, third := []string{"node2", "node1"}, []string{"node2", "node0"}
			if own == 3 {
				second, third = []string{"node1", "node2"}, []string{"node0", "node2"}
			}
			assert.Equal(t, [][]string{[]string{"node0", "node1", "node2"}[:own], second, third}, plans)
			text := strings.Join(said, "\n")
			assert.Regexp(t, `(?s)node0 is back, as a spare.*spare node0 is lost: .*node0 is back, as a spare.*`+
				`node1 is lost: .*spare node0 takes its ranks`, text)
		})
	}
}

// A node that is lost while the job is being opened is replaced, too.
func TestSimulatedLossAtOpening(t *testing.T) {
	for _, at := range []wire.Type{wire.TypeProbe, wire.TypeOpen, wire.TypeStart} {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, 3, time.Millisecond)
				s.agents[0].lostAt = at
				spec := s.spec()
				spec.NumNodes, spec.MinNodes = 2, 2
				var names []string
				result := s.run(t, spec, Options{
					Started: func(p *job.Plan, _ []int) {
						names = p.Hosts()
						s.finish()
					},
				})
				assert.Zero(t, result.ExitCode, Explain(result))
				assert.Equal(t, []string{"node2", "node1"}, names)
			})
		})
	}
}

// With --max-restarts a job waits for hosts that it needs, which then have the ranks that they had.
func TestSimulatedReturn(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a := &attrition{simulation: newSimulation(t, 3, time.Millisecond), away: 10 * time.Minute, gone: map[int]time.Time{}}
			spec := a.spec()
			spec.NumNodes, spec.MinNodes, spec.Restarts.Max = 3, 3, 1
			if !back {
				a.away = time.Hour
			}
			var said []string
			var plans [][]string
			result := a.simulation.run(t, spec, Options{
				reacher: Reach(a.reach),
				Notices: func(n Notice) string {
					said = append(said, n.Text)
					return n.Text
				},
				Started: func(p *job.Plan, _ []int) {
					if plans = append(plans, p.Hosts()); len(plans) == 2 {
						a.finish()
						return
					}
					for _, n := range []int{0, 1} {
						a.gone[n] = time.Now()
						_ = a.agents[n].link.Close()
					}
				},
			})
			text := strings.Join(said, "\n")
			assert.Regexp(t, `waiting up to 15m0s, until ..:..:.., for 2 nodes to come back; lost: node\[0-1\]`, text)
			assert.Equal(t, 1, strings.Count(text, "waiting"), text)
			if back {
				assert.Zero(t, result.ExitCode, Explain(result))
				assert.Equal(t, [][]string{{"node0", "node1", "node2"}, {"node0", "node1", "node2"}}, plans)
				return
			}
			assert.Equal(t, job.ExitLauncher, result.ExitCode)
			assert.Contains(t, Explain(result), "no restart: 2 nodes did not come back within 15m0s")
		})
	}
}

// A signal that comes while ranks stop after a failure ends the job.
func TestSimulatedSignalBeforeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2, time.Millisecond)
		s.agents[1].stubborn = 5 * time.Second
		spec := s.spec()
		spec.Restarts.Max = 3
		result := s.run(t, spec, Options{
			Signals: func(to chan<- os.Signal) {
				time.AfterFunc(3*time.Second, func() { to <- syscall.SIGTERM })
			},
			Started: func(*job.Plan, []int) {
				time.AfterFunc(time.Second, func() { _ = s.agents[0].end(syscall.SIGSEGV) })
			},
		})
		assert.Equal(t, 128+int(syscall.SIGTERM), result.ExitCode, Explain(result))
		assert.Equal(t, job.CauseSignal, result.Cause)
		assert.Len(t, result.Attempts, 1)
	})
}
