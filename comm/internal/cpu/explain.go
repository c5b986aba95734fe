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

// explain converts the group's failure record to an error for a rank in a call of kind during. It uses the group's rank
// numbers and the names of comm's functions.
func (b *Backend) explain(f *C.struct_failure, during backend.Kind) error {
	by, kind := int(f.rank), backend.Kind(f.call.kind)
	if f.kind == C.FAIL_LOST || f.kind == C.FAIL_LEFT {
		by = int(f.other)
	}
	r := b.reader()
	r.Apart = by != r.Me && (kind != during || message(kind))
	call := describe(&f.call)
	switch f.kind {
	case C.FAIL_LOST:
		return r.For(&backend.PeerError{Rank: int(f.rank), How: "its process ended", Call: call, By: by})
	case C.FAIL_LEFT:
		return r.For(&backend.PeerError{Rank: int(f.rank), How: "it closed the group", Call: call, By: by})
	case C.FAIL_TIMEOUT:
		after := time.Duration(f.after_ns).Round(time.Millisecond)
		return r.For(&backend.TimeoutError{Ranks: late(f), Call: call, After: after, By: by})
	case C.FAIL_MISMATCH:
		e := &backend.MismatchError{
			Sequence: uint64(f.sequence), RankA: by, CallA: call, RankB: int(f.other),
			CallB: describe(&f.other_call),
		}
		if message(kind) || message(backend.Kind(f.other_call.kind)) {
			e.Sequence = 0 // messages have no numbers
		}
		return r.For(e)
	}
	return fmt.Errorf("%s ended the group: %s", r.Rank(by), C.GoString(&f.text[0]))
}

// reader returns this rank as the reader of errors.
func (b *Backend) reader() backend.Reader {
	return backend.Reader{Me: b.config.Rank, Job: b.config.Job}
}

// message reports whether a call is point-to-point.
func message(kind backend.Kind) bool {
	return kind == backend.Send || kind == backend.Recv || kind == backend.SendRecv
}

func late(f *C.struct_failure) (ranks []int) {
	for i, word := range f.late {
		for ; word != 0; word &= word - 1 {
			ranks = append(ranks, 64*i+bits.TrailingZeros64(uint64(word)))
		}
	}
	return ranks
}

// describe formats a call: "AllReduce of 1000 float32 (sum)".
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
