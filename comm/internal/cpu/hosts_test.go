//go:build cgo

package cpu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
	"gorun/internal/testneeds"
)

// board is an exchange for ranks in goroutines.
type board struct {
	mu     sync.Mutex
	n      int
	rounds []*round
}

type round struct {
	blobs [][]byte
	left  int
	full  chan struct{}
}

func (b *board) round(i int) *round {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.rounds) <= i {
		b.rounds = append(b.rounds, &round{make([][]byte, b.n), b.n, make(chan struct{})})
	}
	return b.rounds[i]
}

func (b *board) exchange(rank int) backend.Exchange {
	next := 0
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		r := b.round(next)
		next++
		b.mu.Lock()
		r.blobs[rank] = bytes.Clone(blob)
		if r.left--; r.left == 0 {
			close(r.full)
		}
		b.mu.Unlock()
		select {
		case <-r.full:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var key = bytes.Repeat([]byte("k"), cpu.KeySize)

// group joins one rank for each letter of layout, which names its host. It returns the ranks and their errors.
func group(t *testing.T, layout string, change func(*cpu.Config)) ([]*cpu.Backend, []error) {
	t.Helper()
	b := &board{n: len(layout)}
	backs, errs := make([]*cpu.Backend, len(layout)), make([]error, len(layout))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for rank := range layout {
		all.Go(func() {
			c := cpu.Config{
				Rank: rank, Ranks: len(layout), Exchange: b.exchange(rank), Timeout: 20 * time.Second, Key: key,
				Host: layout[rank : rank+1],
			}
			if change != nil {
				change(&c)
			}
			backs[rank], errs[rank] = cpu.Join(ctx, c)
		})
	}
	all.Wait()
	t.Cleanup(func() {
		for _, back := range backs {
			if back != nil {
				assert.NoError(t, back.Close())
			}
		}
	})
	return backs, errs
}

func joined(t *testing.T, layout string, change func(*cpu.Config)) []*cpu.Backend {
	t.Helper()
	backs, errs := group(t, layout, change)
	require.NoError(t, errors.Join(errs...))
	return backs
}

// each runs do on every rank at the same time and returns the errors.
func each(backs []*cpu.Backend, do func(rank int, b *cpu.Backend) error) []error {
	errs := make([]error, len(backs))
	var all sync.WaitGroup
	for rank, back := range backs {
		all.Go(func() { errs[rank] = do(rank, back) })
	}
	all.Wait()
	return errs
}

var layouts = []string{"ab", "aabb", "aaab", "abab", "abc", "abbcc"}

func allReduce(b *cpu.Backend, values []float32) error {
	return b.Run(context.Background(), &backend.Call{
		Kind: backend.AllReduce, DType: backend.Float32, Count: len(values),
		Send: unsafe.Pointer(unsafe.SliceData(values)), Recv: unsafe.Pointer(unsafe.SliceData(values)),
	})
}

func TestAllReduceOverHosts(t *testing.T) {
	t.Parallel()
	for _, layout := range layouts {
		backs := joined(t, layout, nil)
		for _, count := range []int{0, 1, 1000, 10_001, 1<<20 + 1} {
			errs := each(backs, func(rank int, b *cpu.Backend) error {
				values := make([]float32, count)
				for i := range values {
					values[i] = float32(rank + i%100)
				}
				if err := allReduce(b, values); err != nil {
					return err
				}
				n := len(layout)
				for i, got := range values {
					if want := float32(n*(n-1)/2 + n*(i%100)); got != want {
						return fmt.Errorf("%s: rank %d has %v at %d of %d, not %v", layout, rank, got, i, count, want)
					}
				}
				return nil
			})
			require.NoError(t, errors.Join(errs...))
		}
	}
}

func TestHostsNeedAKey(t *testing.T) {
	t.Parallel()
	_, errs := group(t, "ab", func(c *cpu.Config) { c.Key = nil })
	for _, err := range errs {
		assert.ErrorContains(t, err, "ranks 0 and 1 are on different hosts, and connections between hosts need a key: give "+
			"every rank the same 32 random bytes with WithKey")
	}
	_, errs = group(t, "aab", func(c *cpu.Config) {
		if c.Rank == 1 {
			c.Key = nil
		}
	})
	for _, err := range errs {
		assert.ErrorContains(t, err, "rank 1 brought no key")
	}
	_, errs = group(t, "aab", func(c *cpu.Config) {
		if c.Rank == 2 {
			c.Key = bytes.Repeat([]byte("x"), cpu.KeySize)
		}
	})
	for _, err := range errs {
		assert.ErrorContains(t, err, "rank 2 brought another key for the connections between hosts than rank 0")
	}
	_, errs = group(t, "aa", func(c *cpu.Config) { c.Key = nil })
	assert.NoError(t, errors.Join(errs...), "one host needs no key")
	_, errs = group(t, "a", func(c *cpu.Config) { c.Key = []byte("short") })
	assert.ErrorContains(t, errs[0], "a key of 5 bytes is too short")
}

func TestMismatchOverHosts(t *testing.T) {
	t.Parallel()
	for _, layout := range layouts {
		odd := len(layout) - 1
		backs := joined(t, layout, nil)
		errs := each(backs, func(rank int, b *cpu.Backend) error {
			if rank == odd {
				return b.Run(context.Background(), &backend.Call{Kind: backend.Barrier})
			}
			return allReduce(b, make([]float32, 1000))
		})
		for rank, err := range errs {
			var mismatch *backend.MismatchError
			if assert.ErrorAs(t, err, &mismatch, "%s: rank %d", layout, rank) {
				calls := []string{mismatch.CallA, mismatch.CallB}
				assert.ElementsMatch(t, []string{"AllReduce of 1000 float32 (sum)", "Barrier"}, calls, layout)
				assert.Contains(t, []int{mismatch.RankA, mismatch.RankB}, odd, layout)
				assert.EqualValues(t, 1, mismatch.Sequence)
			}
		}
	}
}

// Hosts whose ranks give other counts with the same sum for a host would unpack each other's blocks at wrong places.
func TestDifferentCountsOverHosts(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 10_000} {
		backs := joined(t, "aabb", nil)
		errs := each(backs, func(rank int, b *cpu.Backend) error {
			counts := []int{count, count, count, 3 * count}
			if rank > 1 {
				slices.Reverse(counts[2:])
			}
			send, recv := make([]int32, counts[rank]), make([]int32, 6*count)
			return b.Run(context.Background(), &backend.Call{
				Kind: backend.AllGatherV, DType: backend.Int32, Count: counts[rank], Counts: counts,
				Send: unsafe.Pointer(unsafe.SliceData(send)), Recv: unsafe.Pointer(unsafe.SliceData(recv)),
			})
		})
		var mismatch *backend.MismatchError
		require.ErrorAs(t, errors.Join(errs...), &mismatch)
		require.Contains(t, mismatch.CallA, "AllGatherV")
		require.NotEqual(t, mismatch.CallA, mismatch.CallB)
	}
}

func TestLateRankOfAnotherHost(t *testing.T) {
	t.Parallel()
	for _, layout := range layouts {
		odd := len(layout) - 1
		backs := joined(t, layout, func(c *cpu.Config) { c.Timeout = time.Second })
		errs := each(backs[:odd], func(_ int, b *cpu.Backend) error { return allReduce(b, make([]float32, 100_000)) })
		for rank, err := range errs {
			var late *backend.TimeoutError
			if assert.ErrorAs(t, err, &late, "%s: rank %d", layout, rank) {
				assert.Equal(t, []int{odd}, late.Ranks, layout)
				assert.Equal(t, "AllReduce of 100000 float32 (sum)", late.Call)
			}
		}
		assert.Error(t, backs[odd].Run(t.Context(), &backend.Call{Kind: backend.Barrier}), layout)
	}
}

func TestMonitoredBarrierOverHosts(t *testing.T) {
	t.Parallel()
	for _, layout := range layouts {
		odd := len(layout) - 1
		backs := joined(t, layout, nil)
		errs := each(backs, func(_ int, b *cpu.Backend) error {
			return b.MonitoredBarrier(context.Background(), 10*time.Second)
		})
		require.NoError(t, errors.Join(errs...))
		errs = each(backs[:odd], func(_ int, b *cpu.Backend) error {
			return b.MonitoredBarrier(context.Background(), time.Second)
		})
		for rank, err := range errs {
			var late *backend.TimeoutError
			if assert.ErrorAs(t, err, &late, "%s: rank %d", layout, rank) {
				assert.Equal(t, []int{odd}, late.Ranks, layout)
			}
		}
	}
}

func TestRankOfAnotherHostLeaves(t *testing.T) {
	t.Parallel()
	for _, layout := range layouts {
		odd := len(layout) - 1
		backs := joined(t, layout, nil)
		errs := each(backs, func(rank int, b *cpu.Backend) error {
			if rank == odd {
				return b.Close()
			}
			return allReduce(b, make([]float32, 100_000))
		})
		for rank, err := range errs[:odd] {
			var lost *backend.PeerError
			if assert.ErrorAs(t, err, &lost, "%s: rank %d", layout, rank) {
				assert.Equal(t, odd, lost.Rank, layout)
				assert.Equal(t, "it closed the group", lost.How, layout)
			}
		}
	}
}

// The end of a process is a failure for all ranks, also for those that have no socket to it.
func TestDeathIsSeenByAll(t *testing.T) {
	t.Parallel()
	for _, layout := range append(layouts, "abbb") {
		odd := len(layout) - 1
		backs := joined(t, layout, nil)
		require.NoError(t, backs[0].Failed())
		backs[odd].Die()
		for _, b := range backs[:odd] {
			for b.Failed() == nil {
				runtime.Gosched()
			}
			var lost *backend.PeerError
			require.ErrorAs(t, b.Failed(), &lost, layout)
			require.Equal(t, odd, lost.Rank, layout)
		}
	}
}

func TestCancelReachesOtherHosts(t *testing.T) {
	t.Parallel()
	backs := joined(t, "aabb", nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("enough"))
	defer cancel()
	errs := each(backs[:3], func(rank int, b *cpu.Backend) error {
		if rank == 0 {
			return b.Run(ctx, &backend.Call{Kind: backend.Barrier})
		}
		return b.Run(context.Background(), &backend.Call{Kind: backend.Barrier})
	})
	assert.ErrorContains(t, errs[0], "enough")
	assert.ErrorContains(t, errs[1], "rank 0 ended the group")
	assert.ErrorContains(t, errs[2], "rank 0 ended the group: Barrier was given up: enough")
}

// inOrder adds in the order that doc.go documents: the ranks of each host, then the hosts by their lowest ranks.
func inOrder(layout string, values [][]float32, i int) (sum float32) {
	hosts, seen := []float32{}, map[byte]int{}
	for rank := range layout {
		at, known := seen[layout[rank]]
		if !known {
			seen[layout[rank]] = len(hosts)
			hosts = append(hosts, values[rank][i])
			continue
		}
		hosts[at] += values[rank][i]
	}
	sum = hosts[0]
	for _, partial := range hosts[1:] {
		sum += partial
	}
	return sum
}

func TestSumsOverHostsHaveAnOrder(t *testing.T) {
	t.Parallel()
	random := testneeds.Rand(t)
	for _, layout := range layouts {
		backs := joined(t, layout, nil)
		for _, count := range []int{100, 100_000} {
			inputs := make([][]float32, len(layout))
			for rank := range inputs {
				for range count {
					inputs[rank] = append(inputs[rank], float32(random.NormFloat64()))
				}
			}
			errs := each(backs, func(rank int, b *cpu.Backend) error {
				values := append([]float32{}, inputs[rank]...)
				if err := allReduce(b, values); err != nil {
					return err
				}
				for i, got := range values {
					if want := inOrder(layout, inputs, i); got != want {
						return fmt.Errorf("%s: rank %d has %v at %d of %d, not %v", layout, rank, got, i, count, want)
					}
				}
				return nil
			})
			require.NoError(t, errors.Join(errs...))
		}
	}
}

// The sum of a host's float16 lies beyond their range, the average does not.
func TestAverageOfLargeFloat16(t *testing.T) {
	t.Parallel()
	const large = 0x7800 // 32768
	for _, layout := range []string{"aabb", "abab", "aaabbb"} {
		backs := joined(t, layout, nil)
		for _, count := range []int{10, 30_000} {
			for _, kind := range []backend.Kind{backend.AllReduce, backend.Reduce, backend.ReduceScatter} {
				errs := each(backs, func(rank int, b *cpu.Backend) error {
					send, recv := make([]uint16, count*len(layout)), make([]uint16, count*len(layout))
					for i := range send {
						send[i] = large
					}
					err := b.Run(context.Background(), &backend.Call{
						Kind: kind, DType: backend.Float16, Op: backend.Avg, Count: count,
						Send: unsafe.Pointer(unsafe.SliceData(send)), Recv: unsafe.Pointer(unsafe.SliceData(recv)),
					})
					if kind == backend.Reduce && rank > 0 {
						return err
					}
					for _, got := range recv[:count] {
						if got != large {
							return fmt.Errorf("%s: %v: %x", layout, kind, got)
						}
					}
					return err
				})
				require.NoError(t, errors.Join(errs...))
			}
		}
	}
}

// Each rank waits for a block from the other. No message reveals that their calls differ.
func TestCallsThatNeverMeet(t *testing.T) {
	t.Parallel()
	backs := joined(t, "ab", func(c *cpu.Config) { c.Timeout = 200 * time.Millisecond })
	values := make([]float32, 20)
	errs := each(backs, func(rank int, b *cpu.Backend) error {
		call := backend.Call{Kind: backend.Gather, DType: backend.Float32, Count: 4}
		if rank == 1 {
			call.Kind = backend.Scatter
		}
		call.Send, call.Recv = unsafe.Pointer(&values[10*rank]), unsafe.Pointer(&values[10*rank])
		return b.Run(context.Background(), &call)
	})
	for _, err := range errs {
		var mismatch *backend.MismatchError
		if assert.ErrorAs(t, err, &mismatch) {
			assert.ElementsMatch(t, []string{"Gather of 4 float32 to rank 0", "Scatter of 4 float32 from rank 0"},
				[]string{mismatch.CallA, mismatch.CallB})
		}
	}
}

// A message meets a collective. Within a host this fails at once, between hosts after the timeout.
func TestMessageAgainstCollective(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		layout    string
		odd, from int
		timeout   time.Duration
	}{
		{"ab", 0, 1, time.Second},
		{"ab", 1, 0, time.Second},
		{"aab", 0, 1, time.Minute},
		{"abb", 1, 2, time.Minute},
		{"abb", 2, 1, time.Minute},
	} {
		backs := joined(t, row.layout, func(c *cpu.Config) { c.Timeout = row.timeout })
		values := make([]float32, 10)
		errs := each(backs, func(rank int, b *cpu.Backend) error {
			if rank != row.odd {
				return b.Run(context.Background(), &backend.Call{Kind: backend.Barrier})
			}
			return b.Run(context.Background(), &backend.Call{
				Kind: backend.Recv, DType: backend.Float32, Root: row.from, Count: 3, Recv: unsafe.Pointer(&values[0]),
			})
		})
		for rank, err := range errs {
			var mismatch *backend.MismatchError
			if assert.ErrorAs(t, err, &mismatch, "%v: rank %d", row, rank) {
				assert.Contains(t, []int{mismatch.RankA, mismatch.RankB}, row.odd)
				assert.ElementsMatch(t, []string{fmt.Sprintf("Recv of 3 float32 from rank %d", row.from), "Barrier"},
					[]string{mismatch.CallA, mismatch.CallB})
			}
		}
	}
}

func TestAllocateOverHosts(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"aab", "abab"} {
		errs := each(joined(t, layout, nil), func(_ int, b *cpu.Backend) error {
			region, err := b.Allocate(context.Background(), "Allocate", 400_000)
			if err != nil {
				return err
			}
			values := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(region.Bytes()))), 100_000)
			for i := range values {
				values[i] = 1
			}
			if err := allReduce(b, values); err != nil {
				return err
			}
			if want := float32(len(layout)); values[99_999] != want || values[0] != want {
				return fmt.Errorf("%v and %v, not %v", values[0], values[99_999], want)
			}
			return region.Free(context.Background())
		})
		require.NoError(t, errors.Join(errs...))
	}
}

func TestMessagesOverHosts(t *testing.T) {
	t.Parallel()
	backs := joined(t, "aab", nil)
	errs := each(backs, func(rank int, b *cpu.Backend) error {
		values := []float32{0, 0, 0}
		if rank == 0 {
			values = []float32{1, 2, 3}
		}
		call := backend.Call{
			DType: backend.Float32, Count: 3, Send: unsafe.Pointer(&values[0]),
			Recv: unsafe.Pointer(&values[0]),
		}
		if rank > 0 {
			call.Kind, call.Root = backend.Recv, rank-1
			if err := b.Run(context.Background(), &call); err != nil {
				return err
			}
		}
		if rank < 2 {
			call.Kind, call.Root = backend.Send, rank+1
			if err := b.Run(context.Background(), &call); err != nil {
				return err
			}
		}
		if values[2] != 3 {
			return fmt.Errorf("rank %d has %v", rank, values)
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	values := make([]float32, 8)
	errs = each(backs[1:], func(i int, b *cpu.Backend) error {
		call := backend.Call{Kind: backend.Send, DType: backend.Float32, Root: 2, Count: 3, Send: unsafe.Pointer(&values[0])}
		if i == 1 {
			call = backend.Call{Kind: backend.Recv, DType: backend.Float32, Root: 1, Count: 4, Recv: unsafe.Pointer(&values[4])}
		}
		return b.Run(context.Background(), &call)
	})
	var mismatch *backend.MismatchError
	require.ErrorAs(t, errs[1], &mismatch)
	assert.Equal(t, []any{2, "Recv of 4 float32 from rank 1", 1, "Send of 3 float32 to rank 2"},
		[]any{mismatch.RankA, mismatch.CallA, mismatch.RankB, mismatch.CallB})
}
