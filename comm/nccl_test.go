//go:build cgo

package comm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/nccl/fake"
	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// fakeLibraries makes the search find the fake libraries of comm/internal/nccl.
func fakeLibraries(t *testing.T) {
	dir := fake.Build(t)
	t.Setenv("COMM_NCCL_LIBRARY", dir)
	t.Setenv("COMM_CUDART_LIBRARY", dir)
	t.Setenv("FAKE_CUDA_DEVICES", "4")
}

// together runs rank for n ranks at the same time and returns their errors.
func together(t *testing.T, n int, rank func(ctx context.Context, options []Option) error) []error {
	t.Helper()
	server, err := tcpstore.Listen(tcpstore.Config{})
	require.NoError(t, err)
	defer server.Close()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			errs[i] = rank(context.Background(), []Option{
				WithRank(i, n), WithStore(server.Addr().String()), WithTimeout(time.Minute), WithName(t.Name()),
			})
		})
	}
	all.Wait()
	return errs
}

func TestNCCLRunsCallsOfAGroup(t *testing.T) {
	fakeLibraries(t)
	for _, err := range together(t, 3, func(ctx context.Context, options []Option) error {
		g, err := Join(ctx, append(options, WithBackend("nccl"))...)
		if err != nil {
			return err
		}
		defer g.Close()
		return errors.Join(sumsOnGPU(ctx, g), refusesBits(ctx, g), Barrier(ctx, g))
	}) {
		require.NoError(t, err)
	}
}

func sumsOnGPU(ctx context.Context, g *Group) error {
	buffer, err := NewDeviceBuffer[float32](g, 4)
	if err != nil {
		return err
	}
	defer buffer.Free()
	values := []float32{1, 2, 3, float32(g.Rank())}
	if err := buffer.CopyIn(values); err != nil {
		return err
	}
	if err := AllReduce(ctx, g, buffer.Span(), buffer.Span(), Sum); err != nil {
		return err
	}
	if err := buffer.CopyOut(values); err != nil {
		return err
	}
	if fmt.Sprint(values) != "[3 6 9 3]" {
		return fmt.Errorf("the sums are %v", values)
	}
	return nil
}

// refusesBits checks that a bitwise reduction, which NCCL lacks, returns an error and does not end the group.
func refusesBits(ctx context.Context, g *Group) error {
	x := []int32{1}
	if err := AllReduce(ctx, g, x, x, BXor); !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("bxor ended with %v", err)
	}
	return nil
}

func TestNCCLDifferentCallsAreNamed(t *testing.T) {
	fakeLibraries(t)
	for _, err := range together(t, 2, func(ctx context.Context, options []Option) error {
		g, err := Join(ctx, append(options, WithBackend("nccl"))...)
		if err != nil {
			return err
		}
		defer g.Close()
		x := make([]float32, 1+g.Rank())
		return AllReduce(ctx, g, x, x, Sum)
	}) {
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch)
		require.EqualValues(t, 1, mismatch.Sequence)
		require.ErrorContains(t, err, "AllReduce of 1 float32 (sum)")
		require.ErrorContains(t, err, "AllReduce of 2 float32 (sum)")
	}
}

func TestNCCLNeedsAGPUForEachRank(t *testing.T) {
	fakeLibraries(t)
	t.Setenv("FAKE_CUDA_DEVICES", "2")
	for rank, err := range together(t, 3, func(ctx context.Context, options []Option) error {
		g, err := Join(ctx, append(options, WithBackend("nccl"))...)
		if err == nil {
			g.Close()
		}
		return err
	}) {
		require.Error(t, err)
		if rank < 2 {
			require.ErrorContains(t, err, "rank 2 cannot use it")
		} else {
			require.ErrorContains(t, err, "local rank 2 needs a GPU of its own, and this process sees 2")
		}
	}
}

func TestDeviceOf(t *testing.T) {
	for _, row := range []struct {
		note   string
		local  int
		device int
		says   string
	}{
		{"gpus 4 -1", 3, 3, ""},
		{"gpus 4 2", 0, 2, ""},
		{"gpus 1 -1", 5, 0, ""},
		{"gpus 1 5", 5, 0, ""},
		{"gpus 2 -1", 2, 2, "local rank 2 needs a GPU of its own, and this process sees 2"},
		{"gpus 0 0", 0, 0, "this process sees 0"},
		{"", 0, 0, "what it says of its GPUs"},
	} {
		device, err := deviceOf(row.note, row.local)
		if row.says != "" {
			require.ErrorContains(t, err, row.says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.device, device, row.note)
	}
}

// Ranks with different available back ends select the one that all of them have.
func TestNCCLNotForAll(t *testing.T) {
	fakeLibraries(t)
	errs := together(t, 2, func(ctx context.Context, options []Option) error {
		name := "nccl"
		for _, option := range options {
			var s settings
			if option(&s); s.size > 0 && s.rank == 1 {
				name = "cpu"
			}
		}
		g, err := Join(ctx, append(options, WithBackend(name))...)
		if err == nil {
			err = errors.Join(g.Close())
		}
		return err
	})
	require.ErrorContains(t, errs[0], "rank 1 cannot use it")
	require.NoError(t, errs[1])
}

func TestAutoTakesTheCPUWithoutADriver(t *testing.T) {
	if driverLoaded() {
		testneeds.Skip(t, testneeds.LayerGPU, "this host has a GPU, so auto takes it")
	}
	g, err := Join(context.Background(), WithRank(0, 1))
	require.NoError(t, err)
	defer g.Close()
	require.Equal(t, "cpu", g.Backend())
}

func TestUnknownBackend(t *testing.T) {
	_, err := Join(context.Background(), WithRank(0, 1), WithBackend("gloo"))
	require.EqualError(t, err, `comm: "gloo" is no back end: take cpu, nccl or auto`)
}

// NCCL tells nobody that a rank's call failed.
func TestNCCLErrorOfOneRankEndsAll(t *testing.T) {
	fakeLibraries(t)
	errs := together(t, 3, func(ctx context.Context, options []Option) error {
		g, err := Join(ctx, append(options, WithBackend("nccl"))...)
		if err != nil {
			return err
		}
		defer g.Close()
		x := make([]int32, 5)
		if g.Rank() == 1 {
			short, err := NewDeviceBuffer[int32](g, 4)
			if err != nil {
				return err
			}
			defer short.Free()
			x = unsafe.Slice(unsafe.SliceData(short.Span()), 5)
		}
		return AllReduce(ctx, g, x, x, Sum)
	})
	const why = "a device buffer has 16 bytes from there on, and the call needs 20"
	require.ErrorContains(t, errs[1], why)
	for _, rank := range []int{0, 2} {
		require.ErrorContains(t, errs[rank], "rank 1 ended the group")
		require.ErrorContains(t, errs[rank], why)
	}
}
