// Package backend defines the interface between comm and its back ends. It contains the operations, element types and
// reductions, the description of a call, and the duties of a back end.
package backend

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// Kind is a collective or point-to-point operation. The numbers are part of the wire and shared-memory formats: append
// only, never reorder.
type Kind uint8

// The operations of a back end.
const (
	Barrier Kind = iota + 1
	AllReduce
	Reduce
	Broadcast
	AllGather
	AllGatherV
	ReduceScatter
	ReduceScatterV
	Gather
	GatherV
	Scatter
	ScatterV
	AllToAll
	AllToAllV
	Send
	Recv
	SendRecv
	Kinds // one more than the number of operations
)

var kindNames = [Kinds]string{
	"", "Barrier", "AllReduce", "Reduce", "Broadcast", "AllGather", "AllGatherV", "ReduceScatter", "ReduceScatterV",
	"Gather", "GatherV", "Scatter", "ScatterV", "AllToAll", "AllToAllV", "Send", "Recv", "SendRecv",
}

func (k Kind) String() string {
	if k > 0 && k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// DType is an element type. The numbers are those of ncclDataType_t (nccl.h), so that no conversion is needed.
type DType uint8

// The element types.
const (
	Int8 DType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	DTypes // the number of them
)

var dtypes = [DTypes]struct {
	name string
	size int
}{
	{"int8", 1},
	{"uint8", 1},
	{"int32", 4},
	{"uint32", 4},
	{"int64", 8},
	{"uint64", 8},
	{"float16", 2},
	{"float32", 4},
	{"float64", 8},
	{"bfloat16", 2},
}

func (d DType) String() string {
	if d < DTypes {
		return dtypes[d].name
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// Size returns the size of an element in bytes.
func (d DType) Size() int { return dtypes[d].size }

// Floating reports whether the type is a floating-point type.
func (d DType) Floating() bool { return d >= Float16 }

// Op is a reduction. Sum to Avg have the numbers of ncclRedOp_t (nccl.h). NCCL does not support the others.
type Op uint8

// The reduction operations.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
	BAnd
	BOr
	BXor
	Ops // the number of them
)

var opNames = [Ops]string{"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"}

func (o Op) String() string {
	if o < Ops {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Bitwise reports whether the reduction is bitwise, which only integers support.
func (o Op) Bitwise() bool { return o >= BAnd && o < Ops }

// Call is one operation with its arguments. Kind determines the fields in use:
//
//	Kind                           Count                      Send                    Recv                    Root/Peer
//	Barrier                        -                          -                       -                       -
//	AllReduce                      elements                   Count                   Count                   -
//	Reduce                         elements                   Count                   Count at the root       root
//	Broadcast                      elements                   = Recv                  Count                   root
//	AllGather                      elements of one rank       Count                   Count × ranks           -
//	ReduceScatter                  elements of one rank       Count × ranks           Count                   -
//	Gather                         elements of one rank       Count                   Count × ranks at root   root
//	Scatter                        elements of one rank       Count × ranks at root   Count                   root
//	AllToAll                       elements for one rank      Count × ranks           Count × ranks           -
//	Send                           elements                   Count                   -                       to
//	Recv                           elements                   -                       Count                   from
//	SendRecv                       elements sent              Count                   RecvCount               to, From
//	AllGatherV, ReduceScatterV     own elements               see Counts              see Counts              -
//	GatherV, ScatterV              own elements               see Counts              see Counts              root
//	AllToAllV                      -                          SendCounts, one block   RecvCounts, one block   -
//	                                                          for each rank in order  of each rank in order
//
// Blocks of the V kinds are in rank order without gaps. Counts contains one number for each rank. All ranks set it for
// AllGatherV and ReduceScatterV, and the root does for GatherV and ScatterV.
//
// Send == Recv means in place, on ranks that use both. For AllGather(V) and Gather(V), this rank's block is then at its
// offset in Recv. For ReduceScatter(V) and Scatter(V), the result replaces this rank's block in Send.
type Call struct {
	Kind  Kind
	DType DType
	Op    Op
	Root  int // root, or the rank to send to or receive from
	From  int // the sender, for SendRecv
	Count int
	// RecvCount is the number of elements that SendRecv receives.
	RecvCount int

	Send, Recv             unsafe.Pointer
	Counts                 []int
	SendCounts, RecvCounts []int
}

// Backend runs the calls of one rank in a group. The caller runs only one Run at a time. After the first error, and
// after Abort, every Run fails with that error, because lost ranks cannot rejoin.
type Backend interface {
	// Name returns "cpu" or "nccl".
	Name() string
	// Run blocks until the call's result is complete, the context ends or a rank is lost. Where it applies, the error
	// is a [PeerError], [TimeoutError] or [MismatchError].
	Run(ctx context.Context, call *Call) error
	// MonitoredBarrier waits at most limit for all ranks. Its error names the late ranks.
	MonitoredBarrier(ctx context.Context, limit time.Duration) error
	// Abort makes the present and later calls of every rank fail with the reason.
	Abort(reason error)
	// Close frees the group's resources on this rank. It does not wait for other ranks.
	Close() error
}
