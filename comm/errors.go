package comm

import (
	"fmt"

	"gorun/comm/internal/backend"
)

// The errors by which a group ends. They come wrapped: take them out by [errors.As], with the address of a variable
// that is a pointer:
//
//	var late *comm.TimeoutError
//	if errors.As(err, &late) {
//		fmt.Println("late:", late.Ranks)
//	}
//
// Their fields number ranks as the group does. The texts of a group that Split made say both numbers, "rank 1 of the
// group (rank 3 of the job)".
type (
	// PeerError says that a rank died or closed the group while others needed it. Its fields:
	//
	//	Rank int    // who is lost
	//	How  string // "its process ended", "it closed the group"
	//	Call string // what was under way at rank By: "AllReduce of 1000 float32 (sum)"; "" for nothing
	//	By   int    // the rank that noticed
	PeerError = backend.PeerError
	// TimeoutError says which ranks did not come in time. Its fields:
	//
	//	Ranks []int         // who is late, ascending
	//	Call  string        // what rank By waited in: "AllReduce of 1000 float32 (sum)"
	//	After time.Duration // how long it waited
	//	By    int           // the rank that waited, of which the others learnt it
	//
	// A late rank gets it, too, in its next call.
	TimeoutError = backend.TimeoutError
	// MismatchError says which two ranks made different calls, and which. Its fields:
	//
	//	Sequence     uint64 // the how-manieth call of the group, from 1, with those of which Split,
	//	                    // Allocate, NewBucketer and Free are made; 0 where one of the two is a
	//	                    // Send, Recv or SendRecv
	//	RankA, RankB int
	//	CallA, CallB string // "AllReduce of 1000 float32 (sum)", "Barrier"
	MismatchError = backend.MismatchError
)

// ErrClosed says that the group was closed by this rank. Test for it with [errors.Is].
var ErrClosed = backend.ErrClosed

// ArgumentError says that a call cannot be made with these arguments. Nothing was sent, and the group goes on.
type ArgumentError struct {
	Call string // "AllReduce"
	What string
}

func (e *ArgumentError) Error() string { return fmt.Sprintf("comm: %s: %s", e.Call, e.What) }

func wrong(kind backend.Kind, format string, args ...any) error {
	return &ArgumentError{kind.String(), fmt.Sprintf(format, args...)}
}

// noGroup is the error of a call on a nil *Group.
func noGroup(call string) error {
	return &ArgumentError{
		call,
		"this rank is in no group: the *Group is nil, which is what Split gives for a negative color",
	}
}
