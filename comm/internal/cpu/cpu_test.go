//go:build cgo

package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/comm/internal/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is an exchange among goroutines.
type table struct {
	blobs [][]byte
	full  sync.WaitGroup
}

func (e *table) exchange(rank int) backend.Exchange {
	return func(_ context.Context, blob []byte) ([][]byte, error) {
		e.blobs[rank] = blob
		e.full.Done()
		e.full.Wait()
		return e.blobs, nil
	}
}

// each runs act on every rank of a group whose calls continue after number first.
func each(t *testing.T, n int, first uint64, act func(ctx context.Context, b *Backend, rank int) error) {
	t.Helper()
	e := &table{blobs: make([][]byte, n)}
	e.full.Add(n)
	failed := make([]error, n)
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			b, err := Join(t.Context(), Config{
				Rank: rank, Ranks: n, Exchange: e.exchange(rank), Timeout: time.Minute,
				FirstCall: first,
			})
			if err == nil {
				err = errors.Join(act(t.Context(), b, rank), b.Close())
			}
			failed[rank] = err
		})
	}
	ranks.Wait()
	require.NoError(t, errors.Join(failed...))
}

// The numbers of calls and messages in the cache lines overflow at 2^32, which must have no effect.
func TestCallsWrap(t *testing.T) {
	for _, n := range []int{2, 3} {
		each(t, n, 1<<32-100, func(ctx context.Context, b *Backend, rank int) error {
			for call := range 300 {
				count := 1 + call%3*2000
				data := make([]int64, count)
				data[count-1] = int64(rank + call)
				kind := []backend.Kind{backend.AllReduce, backend.Broadcast, backend.SendRecv}[call/3%3]
				got, want, err := b.one(ctx, kind, data, rank, n)
				if want += int64(call); kind == backend.AllReduce {
					want = int64(n*call + n*(n-1)/2)
				}
				if err != nil || got != want {
					return fmt.Errorf("call %d, %v: %d, not %d, %w", call, kind, got, want, err)
				}
			}
			return nil
		})
	}
}

// one makes a call. It returns the last element of the result and the rank that it must come from.
func (b *Backend) one(ctx context.Context, kind backend.Kind, data []int64, rank, n int) (got, from int64, err error) {
	call := backend.Call{
		Kind: kind, DType: backend.Int64, Count: len(data), Send: unsafe.Pointer(&data[0]),
		Recv: unsafe.Pointer(&data[0]),
	}
	if kind == backend.SendRecv {
		in := make([]int64, len(data))
		call.Recv, call.RecvCount = unsafe.Pointer(&in[0]), len(in)
		call.Root, call.From = (rank+1)%n, (rank+n-1)%n
		err = b.Run(ctx, &call)
		return in[len(in)-1], int64(call.From), err
	}
	err = b.Run(ctx, &call)
	return data[len(data)-1], 0, err
}

// If ranks allocate a region with different sizes, all of them get a mismatch error.
func TestAllocateMismatch(t *testing.T) {
	each(t, 3, 0, func(ctx context.Context, b *Backend, rank int) error {
		_, err := b.Allocate(ctx, "Allocate", 100+rank/2)
		var m *backend.MismatchError
		if !errors.As(err, &m) || m.CallA != "Allocate of 100 bytes" || m.CallB != "Allocate of 101 bytes" ||
			m.RankA != 0 || m.RankB != 2 {
			return fmt.Errorf("rank %d got %w", rank, err)
		}
		return nil
	})
}

// If a rank dies after the exchange, those that wait for it name it: the rank that distributes the memory, or its
// neighbours.
func TestDeathBeforeSharing(t *testing.T) {
	for victim, says := range [][3]string{
		{"died", "rank 0 gives the host's ranks their memory", "rank 0 gives the host's ranks their memory"},
		{"rank 1 did not come: time is over, while the ranks of this host met", "died", ""},
	} {
		e := &table{blobs: make([][]byte, 3)}
		e.full.Add(3)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("time is over"))
		defer cancel()
		failed := make([]error, 3)
		var ranks sync.WaitGroup
		for rank := range 3 {
			exchange := e.exchange(rank)
			ranks.Go(func() {
				c := Config{Rank: rank, Ranks: 3}
				c.Exchange = func(ctx context.Context, blob []byte) ([][]byte, error) {
					blobs, err := exchange(ctx, blob)
					if rank == victim {
						err = errors.New("died")
					}
					return blobs, err
				}
				b, err := Join(ctx, c)
				if err == nil { // rank 2 has its memory already; only its first call would fail
					err = b.Close()
				}
				failed[rank] = err
			})
		}
		ranks.Wait()
		for rank, want := range says {
			if want != "" {
				require.ErrorContains(t, failed[rank], want)
			}
		}
	}
}

// Regions can be freed and allocated again. The error at the limit says what to do.
func TestRegions(t *testing.T) {
	each(t, 2, 0, func(ctx context.Context, b *Backend, rank int) error {
		for range 300 {
			r, err := b.Allocate(ctx, "Allocate", 10)
			if err != nil {
				return err
			}
			r.Bytes()[9] = byte(rank)
			if err := r.Free(ctx); err != nil {
				return err
			}
		}
		for {
			if _, err := b.Allocate(ctx, "Allocate", 1); err != nil {
				if b.Regions() != MaxRegions || err.Error() != "Allocate: more than 256 regions" {
					return err
				}
				return nil
			}
		}
	})
}

// Die closes the rank's sockets, as the end of its process does. What the rank itself sees then does not count.
func (b *Backend) Die() {
	b.links.mu.Lock()
	b.links.closed = true
	b.links.mu.Unlock()
	for _, peer := range b.links.peers {
		if peer != nil {
			peer.Close()
		}
	}
	b.far.mu.Lock()
	b.far.closed = true
	b.far.mu.Unlock()
	for _, c := range b.far.conns {
		c.conn.Close()
	}
}
