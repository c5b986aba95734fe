package tcpstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// event is a call in a history of calls on one key. The states of the key are numbered in the order of changes, so
// the result of a call shows its place in the server's order.
type event struct {
	state      int   // that the call produced or read
	saw        bool  // it changed nothing
	begun, end int64 // by a clock that advances at each event
}

// history collects the events of several goroutines.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	all   []event
}

// call makes a call and records it; act returns the state.
func (h *history) call(act func() (state int, saw bool, err error)) error {
	begun := h.clock.Add(1)
	state, saw, err := act()
	end := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, event{state, saw, begun, end})
	return err
}

// linear returns an error unless one order of all calls places each between its begin and its end. Every state must
// be produced exactly once. A call that ended before another began must precede it. The states determine the order,
// up to calls that read the same one.
func linear(events []event) error {
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b event) int {
		if a.state != b.state || a.saw != b.saw {
			return cmp.Or(cmp.Compare(a.state, b.state), map[bool]int{true: 1, false: -1}[a.saw])
		}
		return cmp.Compare(a.begun, b.begun)
	})
	made, latest := 0, event{}
	for _, e := range events {
		if !e.saw {
			made++
		}
		switch {
		case e.state != made:
			return fmt.Errorf("%+v comes after %d changes", e, made)
		case e.end < latest.begun:
			return fmt.Errorf("%+v ended before %+v began, and comes after it", e, latest)
		case e.begun > latest.begun:
			latest = e
		}
	}
	return nil
}

func TestLinearTellsWhatIsNot(t *testing.T) {
	made := func(state int, begun, end int64) event { return event{state: state, begun: begun, end: end} }
	saw := func(state int, begun, end int64) event { return event{state, true, begun, end} }
	for name, step := range map[string]struct {
		events []event
		good   bool
	}{
		"nothing":                  {nil, true},
		"one after the other":      {[]event{saw(0, 1, 2), made(1, 3, 4), saw(1, 5, 6), made(2, 7, 8)}, true},
		"at once, in any order":    {[]event{made(2, 1, 10), made(1, 2, 9), saw(1, 3, 8), saw(2, 4, 7), saw(0, 5, 6)}, true},
		"a state made twice":       {[]event{made(1, 1, 2), made(1, 3, 4)}, false},
		"a state that nobody made": {[]event{made(1, 1, 2), made(3, 3, 4)}, false},
		"seen before it was made":  {[]event{saw(1, 1, 2), made(1, 3, 4)}, false},
		"an old state":             {[]event{made(1, 1, 2), made(2, 3, 4), saw(1, 5, 6)}, false},
		"the wrong order":          {[]event{made(2, 1, 2), made(1, 3, 4)}, false},
		"two reads turned round":   {[]event{made(1, 1, 10), saw(1, 2, 3), saw(0, 4, 5)}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, step.good, linear(step.events) == nil) })
	}
}

// contenders runs act in many goroutines, half of which share a client, while others disturb the server.
func contenders(t *testing.T, act func(ctx context.Context, c *Client, worker int, r *rand.Rand) error) {
	const workers = 8
	seeds := testneeds.Rand(t)
	s := open(t, Config{})
	shared := dial(t, s)
	failures := make(chan error, workers+1)
	var group sync.WaitGroup
	for worker := range workers {
		c, r := shared, rand.New(rand.NewPCG(seeds.Uint64(), 0))
		if worker%2 == 0 {
			c = dial(t, s)
		}
		group.Go(func() { failures <- act(t.Context(), c, worker, r) })
	}
	noise := rand.New(rand.NewPCG(seeds.Uint64(), 0))
	group.Go(func() { failures <- disturb(s.Addr().String(), noise, linearRounds()) })
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}

func linearRounds() int { return testneeds.Count(150, 20_000) }

// TestAddIsLinear makes many clients increment a counter and read it. Each sum from 1 is returned once, in the
// order of time.
func TestAddIsLinear(t *testing.T) {
	var h history
	contenders(t, func(ctx context.Context, c *Client, _ int, r *rand.Rand) error {
		for range linearRounds() {
			delta := int64(r.IntN(4))
			if err := h.call(func() (int, bool, error) {
				sum, err := c.Add(ctx, "counter", min(delta, 1))
				return int(sum), delta == 0, err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, linear(h.all))
}

// TestCompareSetIsLinear makes many clients replace the value that they last read. Each value has exactly one
// successor, and losers read values in the order of time.
func TestCompareSetIsLinear(t *testing.T) {
	var h history
	contenders(t, func(ctx context.Context, c *Client, worker int, _ *rand.Rand) error {
		var last []byte // of state 0, the missing key
		for round := range linearRounds() {
			mine := fmt.Appendf(nil, "%d %d/%d", stateOf(last)+1, worker, round)
			if err := h.call(func() (int, bool, error) {
				now, err := c.CompareSet(ctx, "chain", last, mine)
				last = now
				return stateOf(now), !bytes.Equal(now, mine), err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, linear(h.all))
	won := 0
	for _, e := range h.all {
		if !e.saw {
			won++
		}
	}
	require.Greater(t, won, linearRounds()/2)
	require.Less(t, won, len(h.all), "nobody ever lost: there was no contention")
}

// stateOf parses the state at the beginning of a value, 0 for an empty one.
func stateOf(value []byte) int {
	number, _, _ := strings.Cut(string(value), " ")
	state, _ := strconv.Atoi(number) // 0 for the empty value
	return state
}

// appended is a value that many clients append to and read.
type appended struct {
	history
	longest []byte           // value read
	pieces  map[string]event // by appended piece
}

const piece = 8 // bytes per append

func (a *appended) append(ctx context.Context, c *Client, worker, round int) error {
	mine := fmt.Sprintf("%02d%06d", worker, round)
	begun := a.clock.Add(1)
	err := c.Append(ctx, "log", []byte(mine))
	end := a.clock.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pieces[mine] = event{begun: begun, end: end}
	return err
}

func (a *appended) read(ctx context.Context, c *Client) error {
	return a.call(func() (int, bool, error) {
		value, err := c.Get(ctx, "log")
		state := len(value) / piece
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(value) > len(a.longest) {
			a.longest, value = value, a.longest
		}
		if err == nil && !bytes.HasPrefix(a.longest, value) {
			err = fmt.Errorf("%q is no beginning of %q", value, a.longest)
		}
		return state, true, err
	})
}

// TestAppendIsLinear makes many clients append to one value and read it. Nothing is lost or torn, earlier bytes
// stay, and the order is that of time.
func TestAppendIsLinear(t *testing.T) {
	a := appended{pieces: map[string]event{}}
	contenders(t, func(ctx context.Context, c *Client, worker int, r *rand.Rand) error {
		if err := c.Append(ctx, "log", nil); err != nil { // create the key
			return err
		}
		for round := range min(linearRounds(), 1000) {
			act := a.read
			if r.IntN(2) == 0 {
				act = func(ctx context.Context, c *Client) error { return a.append(ctx, c, worker, round) }
			}
			if err := act(ctx, c); err != nil {
				return err
			}
		}
		return a.read(ctx, c) // the last read includes all appended bytes
	})
	require.Len(t, a.longest, len(a.pieces)*piece)
	for i := 0; i*piece < len(a.longest); i++ {
		e, ok := a.pieces[string(a.longest[i*piece:(i+1)*piece])]
		require.True(t, ok, "torn, or twice: %q", a.longest)
		delete(a.pieces, string(a.longest[i*piece:(i+1)*piece]))
		e.state = i + 1
		a.all = append(a.all, e)
	}
	require.NoError(t, linear(a.all))
}
