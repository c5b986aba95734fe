//go:build cgo

package nccl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gorun/comm/internal/backend"
)

// example is one collective of float32 with invented numbers: the buffers before the call and the expected result.
type example struct {
	name string
	call backend.Call // without buffers and this rank's counts
	// own sets this rank's counts.
	own func(c *backend.Call, rank int)
	// steps lists the expected NCCL calls of rank 1, or is nil.
	steps []string
}

// Counts of the V kinds for three ranks. Rank 1 has none in the second list.
var (
	uneven = []int{2, 3, 1}
	gap    = []int{2, 0, 3}
	alike  = []int{2, 2, 2}
)

// exchanged returns the number of elements from one rank to another in AllToAllV.
func exchanged(from, to int) int { return (from + 2*to) % 4 }

func ownCount(c *backend.Call, rank int) { c.Count = c.Counts[rank] }

func allToAllCounts(c *backend.Call, rank int) {
	for peer := range 3 {
		c.SendCounts = append(c.SendCounts, exchanged(rank, peer))
		c.RecvCounts = append(c.RecvCounts, exchanged(peer, rank))
	}
}

func ring(c *backend.Call, rank int) {
	c.Root, c.From = (rank+1)%3, (rank+2)%3
	c.Count, c.RecvCount = 2+rank, 2+(rank+2)%3
}

var examples = []example{
	{"barrier", backend.Call{Kind: backend.Barrier}, nil, []string{"ncclAllReduce count 1 type 2 op 2 peer 0"}},
	{
		"all-reduce",
		backend.Call{Kind: backend.AllReduce, Op: backend.Sum, Count: 5},
		nil,
		[]string{"ncclAllReduce count 5 type 7 op 0 peer 0"},
	},
	{
		"all-reduce avg",
		backend.Call{Kind: backend.AllReduce, Op: backend.Avg, Count: 5},
		nil,
		[]string{"ncclAllReduce count 5 type 7 op 4 peer 0"},
	},
	{
		"all-reduce max",
		backend.Call{Kind: backend.AllReduce, Op: backend.Max, Count: 1},
		nil,
		[]string{"ncclAllReduce count 1 type 7 op 2 peer 0"},
	},
	{"all-reduce of nothing", backend.Call{Kind: backend.AllReduce, Count: 0}, nil, nil},
	{
		"reduce",
		backend.Call{Kind: backend.Reduce, Op: backend.Prod, Count: 3, Root: 2},
		nil,
		[]string{"ncclReduce count 3 type 7 op 1 peer 2"},
	},
	{
		"broadcast",
		backend.Call{Kind: backend.Broadcast, Count: 3, Root: 1},
		nil,
		[]string{"ncclBroadcast count 3 type 7 op 0 peer 1"},
	},
	{
		"all-gather",
		backend.Call{Kind: backend.AllGather, Count: 2},
		nil,
		[]string{"ncclAllGather count 2 type 7 op 0 peer 0"},
	},
	{"all-gather-v", backend.Call{Kind: backend.AllGatherV, Counts: uneven}, ownCount, []string{
		"ncclBroadcast count 2 type 7 op 0 peer 0 in group", "ncclBroadcast count 3 type 7 op 0 peer 1 in group",
		"ncclBroadcast count 1 type 7 op 0 peer 2 in group",
	}},
	{"all-gather-v with a gap", backend.Call{Kind: backend.AllGatherV, Counts: gap}, ownCount, []string{
		"ncclBroadcast count 2 type 7 op 0 peer 0 in group", "ncclBroadcast count 3 type 7 op 0 peer 2 in group",
	}},
	{
		"all-gather-v of equals",
		backend.Call{Kind: backend.AllGatherV, Counts: alike},
		ownCount,
		[]string{"ncclAllGather count 2 type 7 op 0 peer 0"},
	},
	{
		"reduce-scatter",
		backend.Call{Kind: backend.ReduceScatter, Op: backend.Min, Count: 2},
		nil,
		[]string{"ncclReduceScatter count 2 type 7 op 3 peer 0"},
	},
	{"reduce-scatter-v", backend.Call{Kind: backend.ReduceScatterV, Op: backend.Sum, Counts: uneven}, ownCount, []string{
		"ncclReduce count 2 type 7 op 0 peer 0 in group", "ncclReduce count 3 type 7 op 0 peer 1 in group",
		"ncclReduce count 1 type 7 op 0 peer 2 in group",
	}},
	{
		"reduce-scatter-v with a gap",
		backend.Call{Kind: backend.ReduceScatterV, Op: backend.Sum, Counts: gap},
		ownCount,
		nil,
	},
	{
		"reduce-scatter-v of equals",
		backend.Call{Kind: backend.ReduceScatterV, Op: backend.Sum, Counts: alike},
		ownCount,
		[]string{"ncclReduceScatter count 2 type 7 op 0 peer 0"},
	},
	{"gather", backend.Call{Kind: backend.Gather, Count: 2, Root: 1}, nil, nil},
	{
		"gather-v",
		backend.Call{Kind: backend.GatherV, Counts: uneven, Root: 2},
		ownCount,
		[]string{"ncclSend count 3 type 7 op 0 peer 2"},
	},
	{"scatter", backend.Call{Kind: backend.Scatter, Count: 2, Root: 1}, nil, nil},
	{
		"scatter-v",
		backend.Call{Kind: backend.ScatterV, Counts: uneven, Root: 0},
		ownCount,
		[]string{"ncclRecv count 3 type 7 op 0 peer 0"},
	},
	{
		"all-to-all",
		backend.Call{Kind: backend.AllToAll, Count: 2},
		nil,
		[]string{"ncclAlltoAll count 2 type 7 op 0 peer 0"},
	},
	{"all-to-all-v", backend.Call{Kind: backend.AllToAllV}, allToAllCounts, []string{
		"ncclSend count 1 type 7 op 0 peer 0 in group", "ncclSend count 3 type 7 op 0 peer 1 in group",
		"ncclSend count 1 type 7 op 0 peer 2 in group",
		"ncclRecv count 2 type 7 op 0 peer 0 in group", "ncclRecv count 3 type 7 op 0 peer 1 in group",
	}},
	{"sendrecv", backend.Call{Kind: backend.SendRecv}, ring, []string{
		"ncclSend count 3 type 7 op 0 peer 2 in group",
		"ncclRecv count 2 type 7 op 0 peer 0 in group",
	}},
}

// TestCollectives runs every kind on three ranks: in host and GPU memory, in place and not.
func TestCollectives(t *testing.T) {
	for flags, calls := range map[string]string{"-DALL": "with every function", "-DNO_ALLTOALL": "without all-to-all"} {
		t.Run(calls, func(t *testing.T) {
			library := fake(t, flags)
			ranks := group(t, library, 3, nil)
			read := logged(t)
			for _, e := range examples {
				for _, memory := range []string{"host", "device"} {
					for _, inPlace := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s, %s, in place %v", e.name, memory, inPlace), func(t *testing.T) {
							read()
							e.run(t, ranks, memory == "device", inPlace)
							if e.steps != nil && (flags == "-DALL" || e.call.Kind != backend.AllToAll) && !inPlace {
								require.Equal(t, e.steps, of(read(), "rank 1 "))
							}
						})
					}
				}
			}
		})
	}
}

// Without ncclAlltoAll, AllToAll is a group of sends and receives.
func TestAllToAllByPairs(t *testing.T) {
	ranks := group(t, fake(t, "-DNO_ALLTOALL"), 2, nil)
	read := logged(t)
	out, in := [2][4]int32{{1, 2, 3, 4}, {5, 6, 7, 8}}, [2][4]int32{}
	run(t, ranks, func(rank int) *backend.Call {
		return &backend.Call{
			Kind: backend.AllToAll, DType: backend.Int32, Count: 2, Send: unsafe.Pointer(&out[rank]),
			Recv: unsafe.Pointer(&in[rank]),
		}
	})
	require.Equal(t, [2][4]int32{{1, 2, 5, 6}, {3, 4, 7, 8}}, in)
	require.Equal(t, []string{
		"ncclSend count 2 type 2 op 0 peer 0 in group", "ncclSend count 2 type 2 op 0 peer 1 in group",
		"ncclRecv count 2 type 2 op 0 peer 0 in group", "ncclRecv count 2 type 2 op 0 peer 1 in group",
	}, of(read(), "rank 0 "))
}

// value is element i of a rank's send buffer. It is small, so that products are exact.
func value(rank, i int) float32 { return float32((rank+1)*(i%5+1) - 4) }

// run runs the example on three ranks and checks the results.
func (e example) run(t *testing.T, ranks []*Backend, device, inPlace bool) {
	t.Helper()
	calls := make([]*backend.Call, len(ranks))
	sent, want := make([][]float32, len(ranks)), make([][]float32, len(ranks))
	for rank := range ranks {
		call := e.call
		call.DType = backend.Float32
		if e.own != nil {
			e.own(&call, rank)
		}
		calls[rank] = &call
		n := ranks[rank].planner.extent(&call)
		if call.Kind == backend.Broadcast {
			n.send = call.Count
		}
		for i := range n.send {
			sent[rank] = append(sent[rank], value(rank, i))
		}
	}
	for rank := range ranks {
		want[rank] = received(calls, sent, rank)
	}
	errs := each(len(ranks), func(rank int) error {
		return oneRank(ranks[rank], calls[rank], sent[rank], want[rank], device, inPlace)
	})
	require.NoError(t, errors.Join(errs...))
}

// oneRank sets up a rank's buffers, runs the call and compares the result.
func oneRank(b *Backend, call *backend.Call, sent, want []float32, device, inPlace bool) error {
	who := b.planner.member
	n := who.extent(call)
	result := make([]float32, n.recv)
	first := 0 // offset of the result in the shared buffer
	buffer := result
	if call.Kind == backend.Broadcast {
		copy(result, sent)
	} else if inPlace && n.send > 0 && n.recv > 0 {
		buffer = make([]float32, max(n.send, n.recv))
		before := 0
		if call.Counts != nil {
			before = sum(call.Counts[:who.rank])
		} else {
			before = who.rank * call.Count
		}
		switch call.Kind {
		case backend.AllGather, backend.AllGatherV, backend.Gather, backend.GatherV:
			copy(buffer[before:], sent)
		case backend.ReduceScatter, backend.ReduceScatterV, backend.Scatter, backend.ScatterV:
			copy(buffer, sent)
			first = before
		default:
			copy(buffer, sent)
		}
		sent = buffer
	}
	if err := runOn(b, call, sent, buffer, device); err != nil {
		return err
	}
	if got := buffer[first : first+n.recv]; fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("rank %d received %v, not %v", who.rank, got, want)
	}
	return nil
}

// runOn runs a call on two slices, which can be the same, or on copies in GPU memory.
func runOn(b *Backend, call *backend.Call, send, recv []float32, device bool) error {
	call.Send, call.Recv = unsafe.Pointer(unsafe.SliceData(send)), unsafe.Pointer(unsafe.SliceData(recv))
	if !device {
		return b.Run(context.Background(), call)
	}
	in, err := upload(b, send)
	if err != nil {
		return err
	}
	defer in.Free()
	out := in
	if call.Send != call.Recv {
		if out, err = upload(b, recv); err != nil {
			return err
		}
		defer out.Free()
	}
	call.Send, call.Recv = in.Pointer(), out.Pointer()
	if err := b.Run(context.Background(), call); err != nil {
		return err
	}
	return out.CopyOut(unsafe.Pointer(unsafe.SliceData(recv)), 4*len(recv))
}

func upload(b *Backend, from []float32) (*DeviceBuffer, error) {
	buffer, err := b.library.Alloc(b.config.Device, 4*len(from))
	if err != nil {
		return nil, err
	}
	return buffer, buffer.CopyIn(unsafe.Pointer(unsafe.SliceData(from)), 4*len(from))
}

// received returns a rank's expected result.
func received(calls []*backend.Call, sent [][]float32, rank int) []float32 {
	c := calls[rank]
	all := func() (joined []float32) {
		for _, one := range sent {
			joined = append(joined, one...)
		}
		return joined
	}
	counts := c.Counts
	if counts == nil {
		counts = []int{c.Count, c.Count, c.Count}
	}
	before := sum(counts[:rank])
	switch c.Kind {
	case backend.AllReduce:
		return reduced(c.Op, sent, 0, c.Count)
	case backend.Reduce:
		if c.Root != rank {
			return nil
		}
		return reduced(c.Op, sent, 0, c.Count)
	case backend.Broadcast:
		return sent[c.Root]
	case backend.AllGather, backend.AllGatherV:
		return all()
	case backend.Gather, backend.GatherV:
		if c.Root != rank {
			return nil
		}
		return all()
	case backend.ReduceScatter, backend.ReduceScatterV:
		return reduced(c.Op, sent, before, c.Count)
	case backend.Scatter, backend.ScatterV:
		return sent[c.Root][before : before+c.Count]
	case backend.AllToAll, backend.AllToAllV:
		var joined []float32
		for from, peer := range calls {
			lists := peer.SendCounts
			if lists == nil {
				lists = counts
			}
			at := sum(lists[:rank])
			joined = append(joined, sent[from][at:at+lists[rank]]...)
		}
		return joined
	case backend.SendRecv:
		return sent[c.From][:c.RecvCount]
	}
	return nil
}

// reduced reduces n elements, starting at index at.
func reduced(op backend.Op, sent [][]float32, at, n int) []float32 {
	result := append([]float32{}, sent[0][at:at+n]...)
	for _, one := range sent[1:] {
		for i, x := range one[at : at+n] {
			switch op {
			case backend.Sum, backend.Avg:
				result[i] += x
			case backend.Prod:
				result[i] *= x
			case backend.Max:
				result[i] = max(result[i], x)
			case backend.Min:
				result[i] = min(result[i], x)
			}
		}
	}
	if op == backend.Avg {
		for i := range result {
			result[i] /= float32(len(sent))
		}
	}
	return result
}
