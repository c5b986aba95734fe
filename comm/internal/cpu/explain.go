//go:build cgo

package cpu

// #include "engine.h"
import "C"

import (
	"fmt"
	"math/bits"
	"time"

	"gorun/comm/internal/backend"
)

// explain turns the group's record of a failure into an error that names ranks as the group counts them, and calls as its user does.
func explain(f *C.struct_failure) error {
	rank := int(f.rank)
	switch f.kind {
	case C.FAIL_LOST:
		return &backend.PeerError{Rank: rank, How: "its process ended", Call: describe(&f.call)}
	case C.FAIL_LEFT:
		return &backend.PeerError{Rank: rank, How: "it closed the group", Call: describe(&f.call)}
	case C.FAIL_TIMEOUT:
		after := time.Duration(f.after_ns).Round(time.Millisecond)
		return &backend.TimeoutError{Ranks: late(f), Call: describe(&f.call), After: after}
	case C.FAIL_MISMATCH:
		return &backend.MismatchError{
			Sequence: uint64(f.sequence), RankA: rank, CallA: describe(&f.call), RankB: int(f.other), CallB: describe(&f.other_call),
		}
	}
	return fmt.Errorf("rank %d ended the group: %s", rank, C.GoString(&f.text[0]))
}

func late(f *C.struct_failure) (ranks []int) {
	for i, word := range f.late {
		for ; word != 0; word &= word - 1 {
			ranks = append(ranks, 64*i+bits.TrailingZeros64(uint64(word)))
		}
	}
	return ranks
}

// describe writes a call as its caller knows it: "AllReduce of 1000 float32 (sum)".
func describe(a *C.struct_announcement) string {
	kind := backend.Kind(a.kind)
	text := kind.String()
	switch kind {
	case 0:
		return ""
	case backend.Barrier:
		return text
	case backend.GatherV, backend.ScatterV, backend.AllToAllV:
		text += fmt.Sprintf(" of %s", backend.DType(a.dtype))
	default:
		text += fmt.Sprintf(" of %d %s", uint64(a.count), backend.DType(a.dtype))
	}
	switch kind {
	case backend.AllReduce, backend.ReduceScatter:
		text += fmt.Sprintf(" (%s)", backend.Op(a.op))
	case backend.ReduceScatterV:
		text += fmt.Sprintf(" (%s, counts with check sum %08x)", backend.Op(a.op), uint32(a.root))
	case backend.AllGatherV:
		text += fmt.Sprintf(" (counts with check sum %08x)", uint32(a.root))
	case backend.Reduce:
		text += fmt.Sprintf(" (%s) to rank %d", backend.Op(a.op), a.root)
	case backend.Broadcast, backend.Scatter, backend.ScatterV:
		text += fmt.Sprintf(" from rank %d", a.root)
	case backend.Gather, backend.GatherV, backend.Send, backend.SendRecv:
		text += fmt.Sprintf(" to rank %d", a.root)
	case backend.Recv:
		text += fmt.Sprintf(" from rank %d", a.root)
	}
	return text
}
