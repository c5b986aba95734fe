//go:build cgo

package nccl

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
)

// barrier returns a call that needs no memory.
func barrier() *backend.Call { return &backend.Call{Kind: backend.Barrier} }

// The NCCL and CUDA calls of a rank, from Join to Close. The fake also checks that the rank's GPU is current.
func TestOrderOfCalls(t *testing.T) {
	l := fake(t)
	read := logged(t)
	ranks, errs := tryGroup(t.Context(), l, 2, nil)
	require.NoError(t, errors.Join(errs...))
	joining := read()
	require.Equal(t, 1, len(of(joining, "ncclGetUniqueId")))
	require.Equal(t, []string{"init 2 GPU 0 config 24 cafebeef 21400 0"}, of(joining, "rank 0 "))
	require.Equal(t, []string{"init 2 GPU 1 config 24 cafebeef 21400 0"}, of(joining, "rank 1 "))
	require.Contains(t, of(joining, "gpu 1 "), "StreamCreateWithFlags 1")

	data := [2][3]int64{{1, 2, 3}, {10, 20, 30}}
	run(t, ranks, func(rank int) *backend.Call {
		at := unsafe.Pointer(&data[rank])
		return &backend.Call{Kind: backend.AllReduce, DType: backend.Int64, Op: backend.Sum, Count: 3, Send: at, Recv: at}
	})
	require.Equal(t, [2][3]int64{{11, 22, 33}, {11, 22, 33}}, data)
	calls := read()
	require.Equal(t, []string{"Malloc 65536", "MemcpyAsync 24 kind 1", "MemcpyAsync 24 kind 2", "StreamSynchronize"},
		of(calls, "gpu 1 "))
	require.Empty(t, of(calls, "ncclGroup"), "one step needs no group")

	require.NoError(t, errors.Join(ranks[0].Close(), ranks[1].Close()))
	closing := read()
	require.Equal(t, []string{"ncclCommFinalize", "ncclCommDestroy"}, of(closing, "rank 0 "))
	require.Equal(t, []string{"StreamDestroy pending 0", "Free", "Free"}, of(closing, "gpu 0 "))
	for _, b := range ranks {
		require.ErrorIs(t, b.Run(t.Context(), barrier()), backend.ErrClosed)
		require.NoError(t, b.Close(), "a second time does nothing")
	}
	require.Empty(t, of(read(), "rank "))
	require.Empty(t, l.buffers)
}

// Stages that are large enough are reused, and GPU memory is used directly.
func TestStagesAreReused(t *testing.T) {
	l := fake(t)
	ranks := group(t, l, 1, nil)
	read := logged(t)
	sizes := []int{1, 100, 20000, 10, 20000}
	for _, count := range sizes {
		data := make([]float32, count)
		require.NoError(t,
			ranks[0].Run(t.Context(), &backend.Call{
				Kind: backend.AllReduce, DType: backend.Float32, Count: count,
				Send: unsafe.Pointer(&data[0]), Recv: unsafe.Pointer(&data[0]),
			}))
	}
	calls := of(read(), "gpu 0 ")
	require.Equal(t, []string{"Malloc 65536", "Malloc 131072"},
		slices.DeleteFunc(slices.Clone(calls), func(line string) bool {
			return !strings.HasPrefix(line, "Malloc")
		}))

	buffer, err := l.Alloc(0, 400)
	require.NoError(t, err)
	call := &backend.Call{
		Kind: backend.AllReduce, DType: backend.Float32, Count: 99,
		Send: unsafe.Add(buffer.Pointer(), 4), Recv: unsafe.Add(buffer.Pointer(), 4),
	}
	require.NoError(t, ranks[0].Run(t.Context(), call))
	require.Equal(t, []string{"Malloc 400"}, of(read(), "gpu 0 "))
	call.Count = 100
	require.ErrorContains(t, ranks[0].Run(t.Context(), call),
		"AllReduce of 100 float32 (sum): a device buffer has 396 bytes from there on, and the call needs 400")
	require.NoError(t, buffer.Free())
}

// A buffer can be part of an object with Go pointers, which cgo would not accept.
func TestBufferBesidePointers(t *testing.T) {
	l := fake(t)
	ranks := group(t, l, 1, nil)
	tensor := &struct {
		name *string
		data [4]int32
	}{new(string), [4]int32{1, 2, 3, 4}}
	at := unsafe.Pointer(&tensor.data)
	require.NoError(t,
		ranks[0].Run(t.Context(), &backend.Call{Kind: backend.AllReduce, DType: backend.Int32, Count: 4, Send: at, Recv: at}))
	buffer, err := l.Alloc(0, 16)
	require.NoError(t, err)
	require.NoError(t, buffer.CopyIn(at, 16))
	tensor.data = [4]int32{}
	require.NoError(t, buffer.CopyOut(at, 16))
	require.Equal(t, [4]int32{1, 2, 3, 4}, tensor.data)
	require.NoError(t, buffer.Free())
}

func TestBufferOfAnotherGPU(t *testing.T) {
	l := fake(t)
	ranks := group(t, l, 1, nil)
	buffer, err := l.Alloc(3, 8)
	require.NoError(t, err)
	defer buffer.Free()
	err = ranks[0].Run(t.Context(), &backend.Call{
		Kind: backend.AllReduce, DType: backend.Int8, Count: 1,
		Send: buffer.Pointer(), Recv: buffer.Pointer(),
	})
	require.ErrorContains(t, err, "a buffer is on GPU 3, and the rank's GPU is 0")
}

// Different calls, a later error and a stream error each name the call and the library's error, abort, and persist.
func TestRunFails(t *testing.T) {
	for name, test := range map[string]struct{ variable, value, said string }{
		"peer gone": {
			"FAKE_NCCL_RUN", "6", "Barrier: NCCL failed on the way: remote process exited or there was a network error (6): " +
				"socketProgress: Connection closed by remote peer",
		},
		"stream fails": {"FAKE_NCCL_RUN", "700", "Barrier: cudaStreamQuery: an illegal memory access was encountered (700)"},
	} {
		t.Run(name, func(t *testing.T) {
			ranks := group(t, fake(t), 2, nil)
			read := logged(t)
			t.Setenv(test.variable, test.value)
			for _, err := range each(2, func(rank int) error { return ranks[rank].Run(t.Context(), barrier()) }) {
				require.EqualError(t, err, test.said)
			}
			calls := read()
			require.Equal(t, "ncclCommAbort", of(calls, "rank 0 ")[1])
			require.EqualError(t, ranks[1].Run(t.Context(), barrier()), test.said, "the first error stays")
			require.Empty(t, of(read(), "rank "))
		})
	}
}

func TestCallsThatDiffer(t *testing.T) {
	ranks := group(t, fake(t), 2, nil)
	for _, err := range each(2, func(rank int) error {
		data := make([]int8, 2)
		at := unsafe.Pointer(&data[0])
		return ranks[rank].Run(t.Context(), &backend.Call{Kind: backend.AllReduce, Count: 1 + rank, Send: at, Recv: at})
	}) {
		require.ErrorContains(t, err, "invalid usage (5): the ranks' calls differ")
	}
}

// If the library rejects a step inside a group of steps, the group is closed nevertheless.
func TestGroupIsClosedAfterRefusal(t *testing.T) {
	l := fake(t)
	ranks := group(t, l, 1, nil)
	buffer, err := l.Alloc(0, 8)
	require.NoError(t, err)
	gone := *buffer
	require.NoError(t, gone.Free())
	l.buffers.add(allocation{uintptr(buffer.Pointer()), 8, 0}) // as if other code had freed it
	read := logged(t)
	call := &backend.Call{
		Kind: backend.SendRecv, DType: backend.Int8, Count: 1, RecvCount: 1, Send: buffer.Pointer(),
		Recv: unsafe.Add(buffer.Pointer(), 4),
	}
	require.EqualError(t, ranks[0].Run(t.Context(), call),
		"SendRecv of 1 int8 to rank 0, 1 from rank 0: ncclSend: invalid argument (4): memory of no GPU")
	require.Equal(t, []string{"Start", "End"}, of(read(), "ncclGroup"))
	l.buffers.remove(uintptr(buffer.Pointer()))
}

// hanging returns a group of one whose calls hang until t ends. entered waits until NCCL has the call.
func hanging(t *testing.T, change func(*Config)) (b *Backend, entered func()) {
	t.Helper()
	ranks := group(t, fake(t), 1, change)
	log := t.TempDir() + "/log"
	t.Setenv("FAKE_LOG", log)
	t.Setenv("FAKE_NCCL_RUN", "hang")
	return ranks[0], func() {
		require.Eventually(t, func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), "ncclAllReduce")
		}, time.Minute, time.Millisecond)
	}
}

func TestContextEndsACall(t *testing.T) {
	b, entered := hanging(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, barrier()) }()
	entered()
	why := errors.New("the user pressed Ctrl-C")
	cancel(why)
	err := <-ended
	require.ErrorIs(t, err, why)
	require.EqualError(t, err, "Barrier: the user pressed Ctrl-C")
	require.ErrorIs(t, b.Run(t.Context(), barrier()), why)
}

func TestContextThatHasEnded(t *testing.T) {
	ranks := group(t, fake(t), 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ranks[0].Run(ctx, barrier()), context.Canceled)
	require.ErrorIs(t, ranks[0].Run(t.Context(), barrier()), context.Canceled,
		"the others may have gone on: the group is over")
}

func TestAbortEndsACall(t *testing.T) {
	b, entered := hanging(t, nil)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(t.Context(), barrier()) }()
	entered()
	lost := &backend.PeerError{Rank: 1, How: "its process ended"}
	b.Abort(lost)
	require.ErrorIs(t, <-ended, lost)
	b.Abort(errors.New("another reason"))
	require.ErrorIs(t, b.Run(t.Context(), barrier()), lost)
}

func TestAbortBetweenCalls(t *testing.T) {
	ranks := group(t, fake(t), 1, nil)
	read := logged(t)
	lost := &backend.PeerError{Rank: 1, How: "its process ended"}
	ranks[0].Abort(lost)
	require.Equal(t, []string{"ncclCommAbort"}, of(read(), "rank 0 "))
	require.ErrorIs(t, ranks[0].Run(t.Context(), barrier()), lost)
}

func TestCloseEndsACall(t *testing.T) {
	b, entered := hanging(t, nil)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(t.Context(), barrier()) }()
	entered()
	require.NoError(t, b.Close())
	require.ErrorIs(t, <-ended, backend.ErrClosed)
}

func TestTimeout(t *testing.T) {
	b, _ := hanging(t, func(c *Config) { c.Timeout = 5 * time.Millisecond })
	err := b.Run(t.Context(), barrier())
	require.True(t, os.IsTimeout(err))
	require.ErrorContains(t, err, "Barrier: not done within 5ms: some rank did not come, and NCCL does not say which")
}

func TestJoinFails(t *testing.T) {
	const meeting = "join: rank 1 of 2 on GPU 1: "
	for name, test := range map[string]struct{ variable, value, said string }{
		"no id": {
			"FAKE_NCCL_ID", "2",
			meeting + "rank 0: ncclGetUniqueId: unhandled system error (2): Bootstrap : no socket interface found",
		},
		"refused": {
			"FAKE_NCCL_INIT", "5", meeting + "NCCL failed on the way: invalid usage (5): Duplicate GPU detected",
		},
		"no memory": {
			"FAKE_CUDA_FAIL", "Malloc:2", meeting + "rank 0: allocate 4 bytes on GPU 0: cudaMalloc: out of memory (2)",
		},
		"no such GPU": {"FAKE_CUDA_DEVICES", "1", meeting + "rank 1: GPU 1 does not exist: the process sees 1 (0 to 0)"},
		"driver fails": {
			"FAKE_CUDA_FAIL", "SetDevice:46",
			meeting + "rank 0: allocate 4 bytes on GPU 0: cudaSetDevice: an illegal memory access was encountered (46)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := fake(t)
			t.Setenv(test.variable, test.value)
			ranks, errs := tryGroup(t.Context(), l, 2, nil)
			require.Equal(t, []*Backend{nil, nil}, ranks)
			first, _, _ := strings.Cut(errs[1].Error(), "\n")
			require.Equal(t, test.said, first)
			require.Error(t, errs[0])
			require.Empty(t, l.buffers)
		})
	}
}

func TestJoinRunsOutOfTime(t *testing.T) {
	t.Setenv("FAKE_NCCL_INIT", "hang")
	read := logged(t)
	_, errs := tryGroup(t.Context(), fake(t), 2, func(c *Config) { c.Timeout = 5 * time.Millisecond })
	for _, err := range errs {
		var slow *slowError
		require.ErrorAs(t, err, &slow)
		require.ErrorContains(t, err, "Join: not done within 5ms")
	}
	require.Equal(t, 2, strings.Count(strings.Join(read(), "\n"), "ncclCommAbort"))
}

func TestJoinIsCancelled(t *testing.T) {
	t.Setenv("FAKE_NCCL_INIT", "hang")
	ctx, cancel := context.WithCancel(t.Context())
	l, meeting := fake(t), newRound(1)
	exchange := func(ctx context.Context, blob []byte) ([][]byte, error) {
		defer cancel()
		return meeting.exchange(0)(ctx, blob)
	}
	_, err := l.Join(ctx, Config{Ranks: 1, Exchange: exchange})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, l.buffers)
}

func TestExchangeFails(t *testing.T) {
	l := fake(t)
	_, err := l.Join(t.Context(), Config{Ranks: 1, Exchange: func(context.Context, []byte) ([][]byte, error) {
		return nil, errors.New("the store is gone")
	}})
	require.EqualError(t, err, "join: rank 0 of 1 on GPU 0: exchange NCCL's ids: the store is gone")
	require.Empty(t, l.buffers)
}

// Close aborts a communicator that does not finish.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	ranks, errs := tryGroup(t.Context(), fake(t), 1, nil)
	require.NoError(t, errs[0])
	ranks[0].closing = time.Millisecond
	t.Setenv("FAKE_NCCL_END", "hang")
	read := logged(t)
	require.NoError(t, ranks[0].Close())
	require.Equal(t, []string{"ncclCommFinalize", "ncclCommAbort"}, of(read(), "rank 0 "))
}

// Many ranks join through several ids if the library supports it.
func TestScalableJoin(t *testing.T) {
	const ranks = 2*ranksPerID + 1
	one := func(c *Config) { c.Device = 0 }
	for name, test := range map[string]struct {
		flags []string
		ids   int
		said  string
	}{
		"several ids": {nil, 3, "scalable 3 ids"},
		"one id":      {[]string{"-DNO_SCALABLE"}, 1, "init 257 GPU 0 config 24 cafebeef 21400 0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fake(t, test.flags...)
			read := logged(t)
			group(t, l, ranks, one)
			lines := read()
			require.Len(t, of(lines, "ncclGetUniqueId"), test.ids)
			require.Equal(t, test.said, of(lines, "rank 256 ")[0])
		})
	}
}

func TestHolders(t *testing.T) {
	require.Equal(t, []int{0}, holders(1, true))
	require.Equal(t, []int{0}, holders(128, true))
	require.Equal(t, []int{0}, holders(1000, false))
	require.Equal(t, []int{0, 65}, holders(129, true), "blocks of 65 and 64")
	require.Equal(t, []int{0, 86, 172}, holders(257, true))
}

func TestIDs(t *testing.T) {
	id := make([]byte, idBytes)
	good := blob("nccl 2.30.7", carriesID, id)
	nothing := blob("nccl 2.30.7", carriesNothing, nil)
	for said, all := range map[string][][]byte{
		"the exchange gave 1 blobs for 2 ranks":           {good},
		"rank 1 gave a blob of 0 bytes that says nothing": {good, nil},
		"rank 0 has nccl 2.30.7, rank 1 has nccl 2.21.5: all ranks of a group need the same": {
			good, blob("nccl 2.21.5", carriesNothing, nil),
		},
		"rank 1: no GPU": {good, blob("nccl 2.30.7", carriesError, []byte("no GPU"))},
		"rank 0 gave an id of 127 bytes, not 128": {blob("nccl 2.30.7", carriesID, id[1:]), nothing},
		"no rank gave an id":                      {nothing, nothing},
	} {
		_, err := idsOf(all, 0, 2)
		require.EqualError(t, err, said)
	}
	ids, err := idsOf([][]byte{good, nothing}, 1, 2)
	require.NoError(t, err)
	require.Len(t, ids, idBytes)
}

// Invalid messages of a rank to itself are rejected before they reach NCCL.
func TestWrongCalls(t *testing.T) {
	who := member{rank: 1, ranks: 3}
	for said, call := range map[string]backend.Call{
		"Recv: rank 1 with itself would wait for ever: SendRecv can do it": {Kind: backend.Recv, Root: 1},
		"SendRecv: rank 1 sends itself 1 elements and wants 2": {
			Kind: backend.SendRecv, Root: 1, From: 1, Count: 1, RecvCount: 2,
		},
		"SendRecv: rank 1 sends to 1 and receives from 2: with itself it must do both": {
			Kind: backend.SendRecv, Root: 1, From: 2,
		},
	} {
		require.EqualError(t, who.check(&call), said)
	}
	require.NoError(t, who.check(&backend.Call{Kind: backend.SendRecv, Root: 1, From: 1, Count: 2, RecvCount: 2}))
}

// Two ranks exchange messages while a third is idle.
func TestSendAndReceive(t *testing.T) {
	ranks := group(t, fake(t), 3, nil)
	data := [3]float64{1, 2, 3}
	errs := each(2, func(rank int) error {
		at := unsafe.Pointer(&data[2*rank])
		kinds := []backend.Kind{backend.Send, backend.Recv}
		return ranks[2*rank].Run(t.Context(), &backend.Call{
			Kind: kinds[rank], DType: backend.Float64, Count: 1,
			Root: 2 - 2*rank, Send: at, Recv: at,
		})
	})
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, [3]float64{1, 2, 1}, data)
	require.Equal(t, "Send of 3 int8 to rank 2", describe(&backend.Call{Kind: backend.Send, Count: 3, Root: 2}))
	require.Equal(t, "Recv of 3 int8 from rank 2", describe(&backend.Call{Kind: backend.Recv, Count: 3, Root: 2}))
	require.Equal(t, "AllToAllV of 3 int8", describe(&backend.Call{Kind: backend.AllToAllV, SendCounts: []int{1, 2}}))
}
