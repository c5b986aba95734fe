package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gorun/rendezvous/internal/table"
)

// Memory is a Store within this process. Its zero value is empty and ready.
type Memory struct {
	mu sync.Mutex
	t  *table.Table
}

var _ Store = (*Memory)(nil)

// locked runs f on the table.
func (m *Memory) locked(ctx context.Context, f func(*table.Table)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.t == nil {
		m.t = table.New()
	}
	f(m.t)
	return nil
}

// Set implements Store.
func (m *Memory) Set(ctx context.Context, key string, value []byte) error {
	return m.locked(ctx, func(t *table.Table) { t.Set(key, value) })
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := m.MultiGet(ctx, key)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// Add implements Store.
func (m *Memory) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	if e := m.locked(ctx, func(t *table.Table) { sum, err = t.Add(key, delta) }); e != nil {
		return 0, e
	}
	return sum, notANumber(key, err)
}

func notANumber(key string, err error) error {
	if errors.Is(err, table.ErrNotANumber) {
		return fmt.Errorf("key %q: %w", key, ErrNotANumber)
	}
	return err
}

// CompareSet implements Store.
func (m *Memory) CompareSet(ctx context.Context, key string, expected, desired []byte) (value []byte, err error) {
	err = m.locked(ctx, func(t *table.Table) { value = t.CompareSet(key, expected, desired) })
	return value, err
}

// Append implements Store.
func (m *Memory) Append(ctx context.Context, key string, more []byte) error {
	return m.locked(ctx, func(t *table.Table) { t.Append(key, more) })
}

// Check implements Store.
func (m *Memory) Check(ctx context.Context, keys ...string) (all bool, err error) {
	all = true
	err = m.locked(ctx, func(t *table.Table) {
		for _, key := range keys {
			all = all && t.Has([]byte(key))
		}
	})
	return all && err == nil, err
}

// Wait implements Store.
func (m *Memory) Wait(ctx context.Context, keys ...string) error {
	return m.wait(ctx, func(t *table.Table, w *table.Wait) (bool, error) { return t.Await(keys, w), nil })
}

// wait registers and waits.
func (m *Memory) wait(ctx context.Context, register func(*table.Table, *table.Wait) (bool, error)) (err error) {
	come := make(chan struct{})
	w := &table.Wait{Done: func() { close(come) }}
	var done bool
	if e := m.locked(ctx, func(t *table.Table) { done, err = register(t, w) }); e != nil || err != nil || done {
		return errors.Join(e, err)
	}
	select {
	case <-come:
		return nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		m.t.Cancel(w)
		return context.Cause(ctx)
	}
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) (was bool, err error) {
	err = m.locked(ctx, func(t *table.Table) { was = t.Delete(key) })
	return was, err
}

// NumKeys implements Store.
func (m *Memory) NumKeys(ctx context.Context) (n int64, err error) {
	err = m.locked(ctx, func(t *table.Table) { n = int64(t.NumKeys()) })
	return n, err
}

// Keys implements Store.
func (m *Memory) Keys(ctx context.Context) (keys []string, err error) {
	err = m.locked(ctx, func(t *table.Table) { keys = t.Keys() })
	return keys, err
}

// MultiGet implements Store.
func (m *Memory) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	if err := m.Wait(ctx, keys...); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	err := m.locked(ctx, func(t *table.Table) {
		for i, key := range keys {
			values[i], _ = t.Get([]byte(key)) // deleted since: empty, as PyTorch's server answers
		}
	})
	return values, err
}

// MultiSet implements Store.
func (m *Memory) MultiSet(ctx context.Context, pairs ...Pair) error {
	return m.locked(ctx, func(t *table.Table) {
		for _, p := range pairs {
			t.Set(p.Key, p.Value)
		}
	})
}

// Push implements Store.
func (m *Memory) Push(ctx context.Context, queue string, value []byte) error {
	return m.locked(ctx, func(t *table.Table) { t.Push(queue, value) })
}

// Pop implements Store.
func (m *Memory) Pop(ctx context.Context, queue string) (value []byte, err error) {
	before := 0
	if err := m.locked(ctx, func(t *table.Table) { value, before = t.Pop(queue) }); err != nil {
		return nil, err
	}
	if before == 0 {
		return nil, fmt.Errorf("pop from queue %q: %w", queue, ErrNotFound)
	}
	return value, nil
}

// QueueLen implements Store.
func (m *Memory) QueueLen(ctx context.Context, queue string) (n int64, err error) {
	err = m.locked(ctx, func(t *table.Table) { n = int64(t.QueueLen([]byte(queue))) })
	return n, err
}

// Barrier implements Store.
func (m *Memory) Barrier(ctx context.Context, key string, size int64) error {
	err := m.wait(ctx, func(t *table.Table, w *table.Wait) (bool, error) { return t.Arrive(key, size, w) })
	return notANumber(key, err)
}
