package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
	"gorun/launcher/job"
)

// simFault is a fault in the link of one simulated node.
type simFault struct {
	name string
	// strike causes the fault.
	strike func(a *simAgent)
	// survives: the job continues.
	survives bool
	// reach replaces the connection to the node.
	reach func(ctx context.Context) error
}

var simFaults = []simFault{
	{name: "cut", strike: func(a *simAgent) { a.down.lose(); a.up.lose() }},
	{name: "cut towards the agent", strike: func(a *simAgent) { a.down.lose() }},
	{name: "cut towards the head", strike: func(a *simAgent) { a.up.lose() }},
	{name: "ended by the agent", strike: func(a *simAgent) { _ = a.link.Close() }},
	{name: "half closed towards the head", strike: func(a *simAgent) { a.up.end() }},
	{name: "half closed towards the agent", strike: func(a *simAgent) { a.down.end() }},
	{name: "slow", survives: true, strike: func(a *simAgent) { a.down.slow(2 * time.Second); a.up.slow(2 * time.Second) }},
	{name: "refused", strike: func(*simAgent) {}, reach: func(context.Context) error { return errors.New("refused") }},
	{
		name: "never reached", strike: func(*simAgent) {},
		reach: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	},
	{name: "very slow", strike: func(a *simAgent) { a.down.slow(time.Minute); a.up.slow(time.Minute) }},
}

// slow delays later writes.
func (f *flight) slow(delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = delay
}

// The real launcher runs in virtual time with links that break at any moment: during connection and probing, at the
// start of ranks, while they run and while they end. It must return in time and name the node. synctest verifies that
// all it started has ended.
func TestSimulatedFaults(t *testing.T) {
	random := testneeds.Rand(t)
	for range testneeds.Count(100, 5000) {
		seed := random.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateFault(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func simulateFault(t *testing.T, r *rand.Rand) {
	nodes := 2 + r.IntN(6)
	s := newSimulation(t, nodes, time.Duration(1+r.IntN(20))*time.Millisecond)
	for _, a := range s.agents {
		a.stubborn = time.Duration(r.IntN(3)) * time.Second
	}
	fault, victim := simFaults[r.IntN(len(simFaults))], s.agents[r.IntN(nodes)]
	victim.refuses = fault.reach
	at, length := moments(r)
	began := time.Now()
	strikes := time.AfterFunc(at, func() { fault.strike(victim) })
	defer strikes.Stop()
	lasts := time.AfterFunc(length, s.finish)
	defer lasts.Stop()

	spec := s.spec()
	spec.Grace = 5 * time.Second
	result, err := Run(context.Background(), spec, Options{
		reacher: Reach(s.reach), Stdout: io.Discard, Stderr: io.Discard,
	})
	took := time.Since(began) - at // in virtual time
	for _, a := range s.agents {   // when their leases expire
		a.down.end()
		a.up.end()
	}
	s.over.Wait()
	what := fmt.Sprintf("%s after %s of %s, %s of %d", fault.name, at, length, victim, nodes)
	harmless := fault.survives || at > length && err == nil && result.ExitCode == 0 // too late
	switch {
	case err != nil:
		assert.False(t, fault.survives, what)
		assert.ErrorContains(t, err, victim.String(), what)
	case harmless:
		assert.Zero(t, result.ExitCode, "%s: %s", what, Explain(result))
	default:
		assert.Equal(t, job.CauseNode, result.Cause, what)
		assert.Contains(t, Explain(result), victim.String()+" is lost", what)
	}
	if fault.reach == nil && !harmless {
		assert.Less(t, took, spec.Lease()+spec.HeartbeatInterval()+spec.Grace+2*time.Second, what)
	}
}

// moments returns the time of the fault and the length of the job without a fault.
func moments(r *rand.Rand) (at, length time.Duration) {
	const long, short = 5 * time.Minute, 10 * time.Second
	switch r.IntN(3) {
	case 0: // in the middle
		return time.Duration(r.IntN(30)) * time.Second, long
	case 1: // at the end
		return short + time.Duration(r.IntN(200)-50)*time.Millisecond, short
	}
	return time.Duration(r.IntN(300)) * time.Millisecond, long
}

func (a *simAgent) String() string { return fmt.Sprintf("node%d", a.index) }

// asked ends ranks after a signal, either at once or after a delay.
func (a *simAgent) asked(sig syscall.Signal) {
	if a.stubborn == 0 || sig == syscall.SIGKILL {
		_ = a.end(sig) // or the launcher has exited
		return
	}
	time.AfterFunc(a.stubborn, func() { _ = a.end(sig) })
}

// fail makes the node's first rank fail.
func (a *simAgent) fail(code int) {
	a.mu.Lock()
	rank := a.ranks[0]
	a.ranks = a.ranks[1:]
	a.mu.Unlock()
	_ = a.link.Send(&wire.Ended{Ranks: []spec.Exit{{Rank: rank, PID: 1000, Code: code, At: time.Now()}}})
}

// The first request waits until the agent runs, so its duration says nothing about the agent's clock. Ranks that were
// stopped after another rank's failure must not appear to be the first to fail.
func TestSimulatedLateAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 3, time.Millisecond)
		s.agents[2].begins = time.Second
		go func() {
			<-s.running
			s.agents[1].fail(17)
		}()
		result := s.run(t, s.spec(), Options{})
		assert.Equal(t, 17, result.ExitCode, Explain(result))
		assert.Equal(t, simRanks, result.First.Rank, Explain(result))
	})
}
