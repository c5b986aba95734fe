// Package backend is what comm and its back ends agree on: which collectives, types and operations there are, how one
// call is described, and what a back end must do with it.
package backend

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// Kind is a collective or point-to-point operation. The numbers go over the wire and into shared memory: append, never
// reorder.
type Kind uint8

// The operations that a back end runs.
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
	Kinds // how many there are, plus one
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

// DType is an element's type, with the numbers of ncclDataType_t (nccl.h), so that no table translates them.
type DType uint8

// The types that can be reduced.
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
	DTypes // how many there are
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

// Size is the bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// Floating reports whether the type is one of floating-point numbers.
func (d DType) Floating() bool { return d >= Float16 }

// Op is a reduction. Sum to Avg have the numbers of ncclRedOp_t (nccl.h); NCCL has no others.
type Op uint8

// The reductions.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
	BAnd
	BOr
	BXor
	Ops // how many there are
)

var opNames = [Ops]string{"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"}

func (o Op) String() string {
	if o < Ops {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Bitwise reports whether the reduction works on bits and so on integers only.
func (o Op) Bitwise() bool { return o >= BAnd && o < Ops }

// Call is one operation with its arguments. Which fields count depends on Kind:
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
// Blocks of the V kinds lie one after the other in rank order. Counts has one number for each rank and is there on
// every rank for AllGatherV and ReduceScatterV, at the root for GatherV and ScatterV. Send == Recv means in place where
// both have a meaning: for AllGather(V) and Gather(V) the own block lies at its place in Recv then, for
// ReduceScatter(V) and Scatter(V) the result goes to the own block's place in Send.
type Call struct {
	Kind  Kind
	DType DType
	Op    Op
	Root  int // root, or the rank sent to or received from
	From  int // of SendRecv
	Count int
	// RecvCount is SendRecv's number of elements to receive.
	RecvCount int

	Send, Recv             unsafe.Pointer
	Counts                 []int
	SendCounts, RecvCounts []int
}

// Backend runs the calls of one group's rank. Only one Run is under way at a time. After the first error, and after
// Abort, each Run fails with that error: ranks that lost each other never meet again.
type Backend interface {
	// Name is "cpu" or "nccl".
	Name() string
	// Run blocks until the call's result is there, the context ends or a rank is lost. Its error is one of the types
	// below where they fit.
	Run(ctx context.Context, call *Call) error
	// MonitoredBarrier waits for all ranks for at most limit, and names who is late.
	MonitoredBarrier(ctx context.Context, limit time.Duration) error
	// Abort makes every rank's present and later calls fail with the reason.
	Abort(reason error)
	// Close frees what the group holds on this rank; it doesn't wait for others.
	Close() error
}
