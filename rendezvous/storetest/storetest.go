// Package storetest is the contract of rendezvous.Store: whatever implements it
// passes these tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/rendezvous"
)

// Run runs the contract. Each call of open returns another handle to one empty
// store, which open gives up at the end of the test that it was given.
func Run(t *testing.T, open func(t *testing.T) func() rendezvous.Store) {
	for _, tc := range []struct {
		name string
		test func(t *testing.T, s rendezvous.Store, another func() rendezvous.Store)
	}{
		{"values", values},
		{"counters", counters},
		{"compare and set", compareSet},
		{"append", appends},
		{"check and delete", checkDelete},
		{"several at once", multi},
		{"keys", keys},
		{"queues", queues},
		{"wait", wait},
		{"a wait given up", cancelled},
		{"barrier", barrier},
		{"concurrent counters", concurrent},
		{"concurrent compare and set", elections},
	} {
		t.Run(tc.name, func(t *testing.T) {
			another := open(t)
			tc.test(t, another(), another)
		})
	}
}

func values(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	for i, value := range [][]byte{[]byte("v"), {}, {0, 255, '\n'}, bytes.Repeat([]byte("8 MiB..."), 1<<20)} {
		key := fmt.Sprintf("k%d\x00/ü", i)
		require.NoError(t, s.Set(ctx, key, value))
		got, err := s.Get(ctx, key)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(value, got), "value %d", i)
	}
}

func counters(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	add := func(key string, delta, want int64) {
		t.Helper()
		got, err := s.Add(ctx, key, delta)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	add("n", 0, 0)
	add("n", -2, -2)
	got, err := s.Get(ctx, "n")
	require.NoError(t, err)
	assert.Equal(t, "-2", string(got))
	require.NoError(t, s.Set(ctx, "m", []byte("41")))
	add("m", 1, 42)
	require.NoError(t, s.Set(ctx, "stoll", []byte(" 12x")))
	add("stoll", 1, 13)
	add("wraps", 1<<63-1, 1<<63-1)
	add("wraps", 1, -1<<63)
}

func compareSet(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	for _, tc := range []struct{ key, expected, desired, answer string }{
		{"k", "x", "lost", "x"}, // missing, and an expectation: the lie
		{"k", "", "first", "first"},
		{"k", "first", "second", "second"},
		{"k", "first", "third", "second"},
		{"k", "", "fourth", "second"},
		{"k", "second", "", ""},
		{"k", "", "fifth", "fifth"},
	} {
		got, err := s.CompareSet(t.Context(), tc.key, []byte(tc.expected), []byte(tc.desired))
		require.NoError(t, err)
		assert.Equal(t, tc.answer, string(got), "%v", tc)
	}
}

func appends(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	require.NoError(t, s.Append(ctx, "a", []byte("one")))
	before, err := s.Get(ctx, "a")
	require.NoError(t, err)
	require.NoError(t, s.Append(ctx, "a", []byte(" two")))
	got, err := s.Get(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, "one two", string(got))
	assert.Equal(t, "one", string(before))
}

func checkDelete(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	check := func(want bool, keys ...string) {
		t.Helper()
		got, err := s.Check(ctx, keys...)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	check(true)
	require.NoError(t, s.Set(ctx, "a", nil))
	check(true, "a")
	check(false, "a", "b")
	for _, want := range []bool{true, false} {
		was, err := s.Delete(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, want, was)
	}
	check(false, "a")
}

func multi(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	require.NoError(t, s.MultiSet(ctx, rendezvous.Pair{Key: "a", Value: []byte("1")}, rendezvous.Pair{Key: "b", Value: []byte("2")}))
	got, err := s.MultiGet(ctx, "b", "a", "b")
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("2"), []byte("1"), []byte("2")}, got)
	got, err = s.MultiGet(ctx)
	require.NoError(t, err)
	assert.Empty(t, got)
}

func keys(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	before, err := s.NumKeys(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Set(ctx, "a", nil))
	require.NoError(t, s.Set(ctx, "b", nil))
	require.NoError(t, s.Push(ctx, "q", nil))
	n, err := s.NumKeys(ctx)
	require.NoError(t, err)
	assert.Equal(t, before+2, n)
	list, err := s.Keys(ctx)
	require.NoError(t, err)
	slices.Sort(list)
	assert.Equal(t, []string{"a", "b"}, list)
}

func queues(t *testing.T, s rendezvous.Store, _ func() rendezvous.Store) {
	ctx := t.Context()
	_, err := s.Pop(ctx, "q")
	assert.ErrorIs(t, err, rendezvous.ErrNotFound)
	require.NoError(t, s.Push(ctx, "q", []byte("1")))
	require.NoError(t, s.Push(ctx, "q", []byte("")))
	n, err := s.QueueLen(ctx, "q")
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
	require.NoError(t, s.Wait(ctx, "q"))
	for _, want := range []string{"1", ""} {
		got, err := s.Pop(ctx, "q")
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	there, err := s.Check(ctx, "q")
	require.NoError(t, err)
	assert.False(t, there, "an empty queue is not there")
}

// begun runs f in a goroutine and returns its error.
func begun(f func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}

func wait(t *testing.T, s rendezvous.Store, another func() rendezvous.Store) {
	ctx := t.Context()
	for name, appear := range map[string]func(key string) error{
		"set":         func(k string) error { return s.Set(ctx, k, nil) },
		"add":         func(k string) error { _, err := s.Add(ctx, k, 1); return err },
		"append":      func(k string) error { return s.Append(ctx, k, nil) },
		"compare-set": func(k string) error { _, err := s.CompareSet(ctx, k, nil, []byte("x")); return err },
		"multi-set":   func(k string) error { return s.MultiSet(ctx, rendezvous.Pair{Key: k}) },
		"push":        func(k string) error { return s.Push(ctx, k, nil) },
	} {
		waiter := another()
		over := begun(func() error { return waiter.Wait(ctx, "here "+name, "here "+name, "there "+name) })
		require.NoError(t, s.Set(ctx, "there "+name, nil))
		require.NoError(t, appear("here "+name))
		require.NoError(t, <-over, name)
	}
	require.NoError(t, s.Wait(ctx), "no keys")
}

func cancelled(t *testing.T, s rendezvous.Store, another func() rendezvous.Store) {
	waiter := another()
	gaveUp := errors.New("gave up")
	for range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		over := begun(func() error { return waiter.Wait(ctx, "never") })
		cancel(gaveUp)
		require.ErrorIs(t, <-over, gaveUp)
		require.NoError(t, waiter.Set(t.Context(), "still", []byte("usable")))
		got, err := waiter.Get(t.Context(), "still")
		require.NoError(t, err)
		assert.Equal(t, "usable", string(got))
	}
	require.NoError(t, s.Set(t.Context(), "never", nil), "nobody is told who no longer waits")
	require.NoError(t, s.Wait(t.Context(), "never"), "so it has been served")
	there, err := waiter.Check(t.Context(), "never")
	require.NoError(t, err)
	assert.True(t, there)
}

func barrier(t *testing.T, s rendezvous.Store, another func() rendezvous.Store) {
	const size = 5
	var passed []<-chan error
	for range size - 1 {
		one := another()
		passed = append(passed, begun(func() error { return one.Barrier(t.Context(), "b", size) }))
	}
	require.NoError(t, s.Barrier(t.Context(), "b", size))
	for _, p := range passed {
		require.NoError(t, <-p)
	}
	require.NoError(t, s.Barrier(t.Context(), "b", size), "it stays open")
	require.NoError(t, s.Barrier(t.Context(), "none", 0))
}

// concurrent: every sum of a counter is seen exactly once.
func concurrent(t *testing.T, _ rendezvous.Store, another func() rendezvous.Store) {
	const clients, each = 8, 200
	seen := make([]bool, clients*each+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range clients {
		s := another()
		wg.Go(func() {
			for range each {
				n, err := s.Add(t.Context(), "n", 1)
				mu.Lock()
				if assert.NoError(t, err) && assert.False(t, seen[n], "%d came twice", n) {
					seen[n] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.NotContains(t, seen[1:], false)
}

// elections: of several who set a missing key, one wins and all hear who.
func elections(t *testing.T, _ rendezvous.Store, another func() rendezvous.Store) {
	const clients, rounds = 6, 50
	answers := make([][]string, rounds)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range clients {
		s := another()
		wg.Go(func() {
			for r := range rounds {
				got, err := s.CompareSet(t.Context(), fmt.Sprint("round ", r), nil, []byte{byte('a' + c)})
				assert.NoError(t, err)
				mu.Lock()
				answers[r] = append(answers[r], string(got))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for r, all := range answers {
		slices.Sort(all)
		assert.Len(t, slices.Compact(all), 1, "round %d", r)
	}
}
