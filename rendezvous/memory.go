package rendezvous

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Memory is a [Store] within one process. Use [NewMemory].
type Memory struct {
	mu     sync.Mutex
	engine *Engine
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{engine: NewEngine()} }

// locked runs act on the store, unless ctx has ended.
func (m *Memory) locked(ctx context.Context, act func(e *Engine)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	act(m.engine)
	return nil
}

// waiting is a call that waits.
type waiting struct {
	Waiter
	woken chan struct{}
}

func newWaiting() *waiting {
	w := &waiting{woken: make(chan struct{}, 1)} // one free slot: Wake must not block
	w.Wake = func() { w.woken <- struct{}{} }
	return w
}

// wait blocks until ready, called once, is true or w is woken, or until ctx ends. It leaves the lock open.
func (m *Memory) wait(ctx context.Context, w *waiting, ready func(e *Engine) bool) error {
	over := false
	if err := m.locked(ctx, func(e *Engine) { over = ready(e) }); err != nil || over {
		return err
	}
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engine.Leave(&w.Waiter)
	return context.Cause(ctx)
}

// Set implements [Store].
func (m *Memory) Set(ctx context.Context, key string, value []byte) error {
	return m.locked(ctx, func(e *Engine) { e.Set([]byte(key), value) })
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := m.MultiGet(ctx, key)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// Add implements [Store].
func (m *Memory) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	var wrong error
	if err = m.locked(ctx, func(e *Engine) { sum, wrong = e.Add([]byte(key), delta) }); err != nil {
		return 0, err
	}
	return sum, wrong
}

// CompareSet implements [Store].
func (m *Memory) CompareSet(ctx context.Context, key string, expected, desired []byte) (inForce []byte, err error) {
	err = m.locked(ctx, func(e *Engine) { inForce = bytes.Clone(e.CompareSet([]byte(key), expected, desired)) })
	return inForce, err
}

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, key string, value []byte) error {
	return m.locked(ctx, func(e *Engine) { e.Append([]byte(key), value) })
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, key string) (existed bool, err error) {
	err = m.locked(ctx, func(e *Engine) { existed = e.Delete([]byte(key)) })
	return existed, err
}

// Wait implements [Store].
func (m *Memory) Wait(ctx context.Context, keys ...string) error {
	w := newWaiting()
	if err := m.wait(ctx, w, func(e *Engine) bool { return e.Wait(&w.Waiter, byteKeys(keys)...) }); err != nil {
		return fmt.Errorf("wait for %s: %w", listed(keys), err)
	}
	return m.locked(context.WithoutCancel(ctx), func(e *Engine) { e.Lapse(&w.Waiter) })
}

// Check implements [Store].
func (m *Memory) Check(ctx context.Context, keys ...string) (all bool, err error) {
	err = m.locked(ctx, func(e *Engine) {
		all = !slices.ContainsFunc(byteKeys(keys), func(k []byte) bool { return !e.Check(k) })
	})
	return all, err
}

// MultiSet implements [Store].
func (m *Memory) MultiSet(ctx context.Context, pairs ...Pair) error {
	return m.locked(ctx, func(e *Engine) {
		for _, p := range pairs {
			e.Set([]byte(p.Key), p.Value)
		}
	})
}

// MultiGet implements [Store].
func (m *Memory) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	if err := m.Wait(ctx, keys...); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	err := m.locked(ctx, func(e *Engine) {
		for i, key := range keys {
			value, _ := e.Get([]byte(key))
			values[i] = bytes.Clone(value)
		}
	})
	return values, err
}

// NumKeys implements [Store].
func (m *Memory) NumKeys(ctx context.Context) (n int, err error) {
	err = m.locked(ctx, func(e *Engine) { n = e.NumKeys() })
	return n, err
}

// Keys implements [Store].
func (m *Memory) Keys(ctx context.Context) (keys []string, err error) {
	err = m.locked(ctx, func(e *Engine) { keys = slices.Collect(e.Keys()) })
	return keys, err
}

// QueuePush implements [Store].
func (m *Memory) QueuePush(ctx context.Context, queue string, value []byte) error {
	return m.locked(ctx, func(e *Engine) { e.Push([]byte(queue), value) })
}

// QueuePop implements [Store].
func (m *Memory) QueuePop(ctx context.Context, queue string) (value []byte, err error) {
	w := newWaiting()
	name := []byte(queue)
	for ok := false; !ok; { // another may have taken what w was woken for
		err = m.wait(ctx, w, func(e *Engine) bool {
			if value, ok = e.Pop(&w.Waiter, name); !ok {
				e.Wait(&w.Waiter, name)
			}
			return ok
		})
		if err != nil {
			m.mu.Lock()
			m.engine.Leave(&w.Waiter) // it may have been woken and then found ctx at its end
			m.mu.Unlock()
			return nil, fmt.Errorf("pop from queue %s: %w", quote(queue), err)
		}
	}
	return value, nil
}

// QueueTryPop implements [Store].
func (m *Memory) QueueTryPop(ctx context.Context, queue string) (value []byte, ok bool, err error) {
	err = m.locked(ctx, func(e *Engine) { value, ok = e.Pop(&Waiter{}, []byte(queue)) })
	return value, ok, err
}

// QueueLen implements [Store].
func (m *Memory) QueueLen(ctx context.Context, queue string) (n int, err error) {
	err = m.locked(ctx, func(e *Engine) { n = e.Len([]byte(queue)) })
	return n, err
}

// Barrier implements [Store].
func (m *Memory) Barrier(ctx context.Context, key string, worldSize int) (err error) {
	w := newWaiting()
	var wrong error
	err = m.wait(ctx, w, func(e *Engine) (full bool) {
		full, wrong = e.Arrive(&w.Waiter, []byte(key), int64(worldSize))
		return full || wrong != nil
	})
	if err != nil {
		return fmt.Errorf("wait at barrier %s: %w", quote(key), err)
	}
	return wrong
}

func byteKeys(keys []string) [][]byte {
	list := make([][]byte, len(keys))
	for i, key := range keys {
		list[i] = []byte(key)
	}
	return list
}

// listed names keys in an error.
func listed(keys []string) string {
	switch len(keys) {
	case 0:
		return "no key"
	case 1:
		return quote(keys[0])
	}
	return fmt.Sprintf("%s and %d more", quote(keys[0]), len(keys)-1)
}
