package tcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContract checks the promises in the documentation of Client and Engine.
func TestContract(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *Client){
		"values":                     values,
		"values are the caller's":    ownership,
		"counters":                   counters,
		"sums wrap":                  wrapping,
		"compare and set":            compareSet,
		"append":                     appends,
		"check and delete":           checkDelete,
		"several keys at once":       several,
		"keys":                       keys,
		"queues":                     queues,
		"queues are no keys":         queuesAreNoKeys,
		"what ends a wait":           wakes,
		"get waits":                  getWaits,
		"pop waits":                  popWaits,
		"each value is popped once":  popOnce,
		"a wait given up":            givenUp,
		"a queue's waiter gives up":  popGivenUp,
		"barrier":                    barrier,
		"a barrier given up":         barrierGivenUp,
		"a context that has ended":   ended,
		"counters from many":         concurrentAdd,
		"elections":                  elections,
		"waiters do not block calls": waitersDoNotBlock,
	} {
		t.Run(name, func(t *testing.T) { test(t, dial(t, open(t, Config{}))) })
	}
}

// begun starts act and returns a channel for its error.
func begun(act func() error) <-chan error {
	over := make(chan error, 1)
	go func() { over <- act() }()
	return over
}

func set(t *testing.T, s *Client, key, value string) {
	t.Helper()
	require.NoError(t, s.Set(t.Context(), key, []byte(value)))
}

func requireValue(t *testing.T, s *Client, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func checks(t *testing.T, s *Client, want bool, keys ...string) {
	t.Helper()
	got, err := s.Check(t.Context(), keys...)
	require.NoError(t, err)
	require.Equal(t, want, got, "%q", keys)
}

func adds(t *testing.T, s *Client, key string, delta, want int64) {
	t.Helper()
	got, err := s.Add(t.Context(), key, delta)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func values(t *testing.T, s *Client) {
	for key, value := range map[string]string{
		"plain": "v", "empty": "", "binary": "\x00\xff\n", "": "of the empty key", "k\x00/ü//": "of a strange key",
		"long": string(make([]byte, 8<<20)),
	} {
		set(t, s, key, value)
		got, err := s.Get(t.Context(), key)
		require.NoError(t, err)
		require.True(t, bytes.Equal([]byte(value), got), "%q", key)
	}
	set(t, s, "plain", "another")
	requireValue(t, s, "plain", "another")
}

func ownership(t *testing.T, s *Client) {
	value := []byte("value")
	require.NoError(t, s.Set(t.Context(), "k", value))
	copy(value, "XXXXX")
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "value", string(got))
	copy(got, "YYYYY")
	requireValue(t, s, "k", "value")
}

func counters(t *testing.T, s *Client) {
	adds(t, s, "n", 0, 0)
	checks(t, s, true, "n")
	adds(t, s, "n", -2, -2)
	requireValue(t, s, "n", "-2")
	set(t, s, "m", "41")
	adds(t, s, "m", 1, 42)
	set(t, s, "text", " \t+12x")
	adds(t, s, "text", 1, 13)
}

func wrapping(t *testing.T, s *Client) {
	adds(t, s, "n", 1<<63-1, 1<<63-1)
	adds(t, s, "n", 1, -1<<63)
	adds(t, s, "n", -1, 1<<63-1)
}

func compareSet(t *testing.T, s *Client) {
	for _, step := range []struct{ expected, desired, answer string }{
		{"x", "lost", "x"}, // the key is missing and expected is not empty
		{"", "first", "first"},
		{"first", "second", "second"},
		{"first", "third", "second"},
		{"", "fourth", "second"},
		{"second", "", ""},
		{"", "fifth", "fifth"},
	} {
		got, err := s.CompareSet(t.Context(), "k", []byte(step.expected), []byte(step.desired))
		require.NoError(t, err)
		require.Equal(t, step.answer, string(got), "%v", step)
		if step.desired == "lost" {
			checks(t, s, false, "k")
		}
	}
	requireValue(t, s, "k", "fifth")
}

func appends(t *testing.T, s *Client) {
	require.NoError(t, s.Append(t.Context(), "k", []byte("one")))
	before, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "k", []byte(" two")))
	requireValue(t, s, "k", "one two")
	require.Equal(t, "one", string(before))
	require.NoError(t, s.Append(t.Context(), "none", nil))
	checks(t, s, true, "none")
}

func checkDelete(t *testing.T, s *Client) {
	checks(t, s, true)
	set(t, s, "a", "")
	checks(t, s, true, "a", "a")
	checks(t, s, false, "a", "b")
	for _, want := range []bool{true, false} {
		existed, err := s.Delete(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, want, existed)
		checks(t, s, false, "a")
	}
	adds(t, s, "a", 1, 1)
}

func several(t *testing.T, s *Client) {
	require.NoError(t, s.MultiSet(t.Context(), "a", "1", "b", "", "a", "3"))
	got, err := s.MultiGet(t.Context(), "b", "a", "b")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []string{"", "3", ""}, []string{string(got[0]), string(got[1]), string(got[2])})
	got, err = s.MultiGet(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, s.MultiSet(t.Context()))

	late := begun(func() error { _, err := s.MultiGet(t.Context(), "a", "late"); return err })
	set(t, s, "late", "")
	require.NoError(t, <-late)
}

func keys(t *testing.T, s *Client) {
	set(t, s, "a", "")
	adds(t, s, "b", 1, 1)
	require.NoError(t, s.Barrier(t.Context(), "c", 0))
	require.NoError(t, s.QueuePush(t.Context(), "queue", nil))
	set(t, s, "gone", "")
	_, err := s.Delete(t.Context(), "gone")
	require.NoError(t, err)

	list, err := s.Keys(t.Context())
	require.NoError(t, err)
	n, err := s.NumKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, list, n)
	for _, key := range []string{"a", "b"} {
		require.Contains(t, list, key)
	}
	require.NotContains(t, list, "queue")
	require.NotContains(t, list, "gone")
}

func queues(t *testing.T, s *Client) {
	length := func(want int) {
		t.Helper()
		n, err := s.QueueLen(t.Context(), "q")
		require.NoError(t, err)
		require.Equal(t, want, n)
		checks(t, s, want > 0, "q")
	}
	length(0)
	for i, value := range []string{"first", "", "third"} {
		require.NoError(t, s.QueuePush(t.Context(), "q", []byte(value)))
		length(i + 1)
	}
	require.NoError(t, s.Wait(t.Context(), "q"))
	for i, want := range []string{"first", "", "third"} {
		got, err := s.QueuePop(t.Context(), "q")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		length(2 - i)
	}
	_, ok, err := s.QueueTryPop(t.Context(), "q")
	require.NoError(t, err)
	require.False(t, ok)
}

func queuesAreNoKeys(t *testing.T, s *Client) {
	require.NoError(t, s.QueuePush(t.Context(), "x", []byte("queued")))
	existed, err := s.Delete(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, existed)
	set(t, s, "x", "value")
	existed, err = s.Delete(t.Context(), "x")
	require.NoError(t, err)
	require.True(t, existed)
	got, ok, err := s.QueueTryPop(t.Context(), "x")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "queued", string(got))
}

func wakes(t *testing.T, s *Client) {
	for name, appear := range map[string]func(key string) error{
		"set":         func(k string) error { return s.Set(t.Context(), k, nil) },
		"add":         func(k string) error { _, err := s.Add(t.Context(), k, 1); return err },
		"append":      func(k string) error { return s.Append(t.Context(), k, nil) },
		"compare set": func(k string) error { _, err := s.CompareSet(t.Context(), k, nil, []byte("x")); return err },
		"multi set":   func(k string) error { return s.MultiSet(t.Context(), k, "") },
		"push":        func(k string) error { return s.QueuePush(t.Context(), k, nil) },
	} {
		over := begun(func() error { return s.Wait(t.Context(), name, "beside "+name, "beside "+name) })
		set(t, s, "beside "+name, "")
		require.NoError(t, appear(name), name)
		require.NoError(t, <-over, name)
	}
	require.NoError(t, s.Wait(t.Context()), "no key is missing")
}

func getWaits(t *testing.T, s *Client) {
	type answer struct {
		value []byte
		err   error
	}
	const readers = 8
	answers := make(chan answer, readers)
	for range readers {
		go func() {
			value, err := s.Get(t.Context(), "k")
			answers <- answer{value, err}
		}()
	}
	set(t, s, "k", "v")
	for range readers {
		a := <-answers
		require.NoError(t, a.err)
		require.Equal(t, "v", string(a.value))
	}
}

func popWaits(t *testing.T, s *Client) {
	popped := make(chan string, 1)
	over := begun(func() error {
		value, err := s.QueuePop(t.Context(), "q")
		popped <- string(value)
		return err
	})
	require.NoError(t, s.QueuePush(t.Context(), "q", []byte("v")))
	require.NoError(t, <-over)
	require.Equal(t, "v", <-popped)
	checks(t, s, false, "q")
}

func popOnce(t *testing.T, s *Client) {
	const workers, each = 6, 40
	var mu sync.Mutex
	seen := map[string]int{}
	var group sync.WaitGroup
	failures := make(chan error, 2*workers)
	for w := range workers {
		group.Go(func() {
			for range each {
				value, err := s.QueuePop(t.Context(), "q")
				if err != nil {
					failures <- err
					return
				}
				mu.Lock()
				seen[string(value)]++
				mu.Unlock()
			}
		})
		group.Go(func() {
			for i := range each {
				if err := s.QueuePush(t.Context(), "q", []byte(strconv.Itoa(w*each+i))); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	require.Empty(t, failures)
	require.Len(t, seen, workers*each)
}

var errGaveUp = errors.New("gave up")

func givenUp(t *testing.T, s *Client) {
	for i := range 20 {
		ctx, giveUp := context.WithCancelCause(t.Context())
		over := begun(func() error { return s.Wait(ctx, "never") })
		giveUp(errGaveUp)
		require.ErrorIs(t, <-over, errGaveUp)
		set(t, s, "still", strconv.Itoa(i))
		requireValue(t, s, "still", strconv.Itoa(i))
	}
	set(t, s, "never", "")
	checks(t, s, true, "never")
}

// popGivenUp makes one of two clients cancel while values arrive; the other gets one. A value popped at the moment
// of the cancellation may be lost, so there are two.
func popGivenUp(t *testing.T, s *Client) {
	pop := func(ctx context.Context) func() error {
		return func() error { _, err := s.QueuePop(ctx, "q"); return err }
	}
	for range 50 {
		ctx, giveUp := context.WithCancelCause(t.Context())
		leaves, stays := begun(pop(ctx)), begun(pop(t.Context()))
		pushed := begun(func() error { return s.QueuePush(t.Context(), "q", nil) })
		giveUp(errGaveUp)
		require.NoError(t, <-pushed)
		require.NoError(t, s.QueuePush(t.Context(), "q", nil))
		if err := <-leaves; err != nil {
			require.ErrorIs(t, err, errGaveUp)
		}
		require.NoError(t, <-stays)
		for more := true; more; {
			var err error
			_, more, err = s.QueueTryPop(t.Context(), "q")
			require.NoError(t, err)
		}
	}
}

func barrier(t *testing.T, s *Client) {
	const size = 5
	var passed []<-chan error
	for range size - 1 {
		passed = append(passed, begun(func() error { return s.Barrier(t.Context(), "b", size) }))
	}
	require.NoError(t, s.Barrier(t.Context(), "b", size))
	for _, p := range passed {
		require.NoError(t, <-p)
	}
	require.NoError(t, s.Barrier(t.Context(), "b", size), "it stays open")
	require.NoError(t, s.Barrier(t.Context(), "of none", 0))
	require.NoError(t, s.Barrier(t.Context(), "of less", -1))
}

func barrierGivenUp(t *testing.T, s *Client) {
	ctx, giveUp := context.WithCancelCause(t.Context())
	over := begun(func() error { return s.Barrier(ctx, "b", 3) })
	second := begun(func() error { return s.Barrier(t.Context(), "b", 3) })
	select {
	case err := <-second:
		t.Fatalf("two of three passed: %v", err)
	default:
	}
	giveUp(errGaveUp)
	require.ErrorIs(t, <-over, errGaveUp)
	// The canceled client may not have arrived before. Two more fill the barrier in either case, and any further
	// client passes.
	third := begun(func() error { return s.Barrier(t.Context(), "b", 3) })
	require.NoError(t, s.Barrier(t.Context(), "b", 3))
	require.NoError(t, <-second)
	require.NoError(t, <-third)
}

func ended(t *testing.T, s *Client) {
	ctx, giveUp := context.WithCancelCause(t.Context())
	giveUp(errGaveUp)
	require.ErrorIs(t, s.Set(ctx, "k", nil), errGaveUp)
	_, err := s.Get(ctx, "k")
	require.ErrorIs(t, err, errGaveUp)
	_, err = s.QueuePop(ctx, "q")
	require.ErrorIs(t, err, errGaveUp)
	require.ErrorIs(t, s.Barrier(ctx, "b", 2), errGaveUp)
	checks(t, s, false, "k")
}

// concurrentAdd: each sum is returned exactly once, in any order.
func concurrentAdd(t *testing.T, s *Client) {
	const clients, each = 8, 100
	sums := make(chan int64, clients*each)
	failures := make(chan error, clients)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range each {
				n, err := s.Add(t.Context(), "n", 1)
				if err != nil {
					failures <- err
					return
				}
				sums <- n
			}
		})
	}
	group.Wait()
	close(sums)
	require.Empty(t, failures)
	var all []int64
	for n := range sums {
		all = append(all, n)
	}
	slices.Sort(all)
	require.Len(t, all, clients*each)
	for i, n := range all {
		require.EqualValues(t, i+1, n)
	}
}

// elections: of several clients that set a missing key one wins, and all learn the winner.
func elections(t *testing.T, s *Client) {
	const clients, rounds = 6, 30
	answers := make(chan [2]string, clients*rounds)
	failures := make(chan error, clients)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for r := range rounds {
				round := fmt.Sprint("round ", r)
				got, err := s.CompareSet(t.Context(), round, nil, []byte{byte('a' + c)})
				if err != nil {
					failures <- err
					return
				}
				answers <- [2]string{round, string(got)}
			}
		})
	}
	group.Wait()
	close(answers)
	require.Empty(t, failures)
	winners := map[string]string{}
	for a := range answers {
		if winner, known := winners[a[0]]; known {
			require.Equal(t, winner, a[1], a[0])
		}
		winners[a[0]] = a[1]
	}
	require.Len(t, winners, rounds)
}

// waitersDoNotBlock: a store with only one connection, in use by a waiting call, would never get the key that ends the
// wait.
func waitersDoNotBlock(t *testing.T, s *Client) {
	const waiters = 10
	var over []<-chan error
	for i := range waiters {
		over = append(over, begun(func() error { return s.Wait(t.Context(), fmt.Sprint("k", i)) }))
	}
	for i := range waiters {
		set(t, s, fmt.Sprint("k", i), "")
		require.NoError(t, <-over[i])
	}
}
