package tcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// TestStress runs all operations from many goroutines, some with their own client and some with a shared one. Other
// peers send garbage and incomplete requests. Counters add up, every queued value is popped once, and at the end
// nothing is left.
func TestStress(t *testing.T) {
	const workers = 12
	rounds := testneeds.Count(60, 5000)
	seeds := testneeds.Rand(t)
	s := open(t, Config{})
	shared := dial(t, s)
	var group sync.WaitGroup
	failures := make(chan error, 2*workers)
	for w := range workers {
		c := shared
		if w%2 == 0 {
			c = dial(t, s)
		}
		mine, other := rand.New(rand.NewPCG(seeds.Uint64(), 0)), rand.New(rand.NewPCG(seeds.Uint64(), 0))
		group.Go(func() { failures <- work(t.Context(), c, mine, rounds) })
		group.Go(func() { failures <- disturb(s.Addr().String(), other, rounds) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	sum, err := shared.Add(t.Context(), "sum", 0)
	require.NoError(t, err)
	require.EqualValues(t, workers*rounds, sum)
	log, err := shared.Get(t.Context(), "log")
	require.NoError(t, err)
	require.Len(t, log, workers*rounds)
	left, err := shared.QueueLen(t.Context(), "work")
	require.NoError(t, err)
	require.Zero(t, left)
	require.Eventually(t, func() bool { return s.Snapshot().Waiting == 0 }, time.Minute, time.Millisecond)
}

// work does rounds of all operations.
func work(ctx context.Context, c *Client, r *rand.Rand, rounds int) error {
	for round := range rounds {
		for _, step := range []func(context.Context, *Client, *rand.Rand, int) error{count, give, meet, giveUp} {
			if err := step(ctx, c, r, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func count(ctx context.Context, c *Client, r *rand.Rand, _ int) error {
	if _, err := c.Add(ctx, "sum", 1); err != nil {
		return err
	}
	if err := c.Append(ctx, "log", []byte{'x'}); err != nil {
		return err
	}
	value := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(100_000))
	key := fmt.Sprint("own ", r.Uint64())
	if err := c.Set(ctx, key, value); err != nil {
		return err
	}
	got, err := c.Get(ctx, key)
	if err == nil && !bytes.Equal(got, value) {
		err = fmt.Errorf("%q has %d bytes, not %d, or others", key, len(got), len(value))
	}
	if _, deleted := c.Delete(ctx, key); err == nil {
		err = deleted
	}
	return err
}

// give pushes a value and pops one, so no client waits for ever.
func give(ctx context.Context, c *Client, _ *rand.Rand, _ int) error {
	if err := c.QueuePush(ctx, "work", []byte("w")); err != nil {
		return err
	}
	_, err := c.QueuePop(ctx, "work")
	return err
}

// meet elects one client by compare-and-set.
func meet(ctx context.Context, c *Client, r *rand.Rand, round int) error {
	key := fmt.Sprint("round ", round)
	chosen, err := c.CompareSet(ctx, key, nil, []byte{byte('a' + r.IntN(26))})
	if err != nil {
		return err
	}
	got, err := c.MultiGet(ctx, key, key)
	if err == nil && !bytes.Equal(got[0], chosen) {
		err = fmt.Errorf("%q: %q was chosen, and then %q", key, chosen, got[0])
	}
	return err
}

// giveUp waits for a key that is never set.
func giveUp(ctx context.Context, c *Client, r *rand.Rand, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Microsecond)
	defer cancel()
	if err := c.Wait(ctx, "never", "sum"); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a wait that cannot end: %w", err)
	}
	return nil
}

// disturb connects, sends garbage and disconnects.
func disturb(addr string, r *rand.Rand, rounds int) error {
	noise := [][]byte{
		listOf(opWait, "/sum", "/never"), request(opSet, number(10), []byte("half")),
		{opListKeys, opListKeys},
		request(opBarrier, text("b"), number(1<<40)),
		listOf(opWait, "/work"),
		{200},
		request(opGet, number(-1)),
	}
	for range rounds {
		peer, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		if r.IntN(4) > 0 {
			_, _ = peer.Write(greeting)
		}
		_, _ = peer.Write(noise[r.IntN(len(noise))])
		_ = peer.Close()
	}
	return nil
}
