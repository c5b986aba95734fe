package comm

import (
	"fmt"

	"gorun/comm/internal/backend"
)

// The errors that end a group. They are wrapped. Use [errors.As] with the address of a pointer variable to get one:
//
//	var late *comm.TimeoutError
//	if errors.As(err, &late) {
//		fmt.Println("late:", late.Ranks)
//	}
//
// Their fields contain the group's rank numbers. In a group that Split returned, the texts contain both numbers: "rank
// 1 of the group (rank 3 of the job)".
type (
	// PeerError reports that a rank died or closed the group while other ranks needed it. Its fields:
	//
	//	Rank int    // the lost rank
	//	How  string // "its process ended", "it closed the group"
	//	Call string // rank By's current call: "AllReduce of 1000 float32 (sum)"; "" if none
	//	By   int    // the rank that noticed
	PeerError = backend.PeerError
	// TimeoutError reports the ranks that did not arrive in time. Its fields:
	//
	//	Ranks []int         // the late ranks, ascending
	//	Call  string        // rank By's call: "AllReduce of 1000 float32 (sum)"
	//	After time.Duration // how long rank By waited
	//	By    int           // the rank that waited and reported the timeout
	//
	// A late rank gets the same error in its next call.
	TimeoutError = backend.TimeoutError
	// MismatchError reports two ranks that made different calls. Its fields:
	//
	//	Sequence     uint64 // the call's number in the group, from 1; Split, Allocate, NewBucketer
	//	                    // and Free consist of calls too; 0 if one of the two is a Send, Recv
	//	                    // or SendRecv
	//	RankA, RankB int
	//	CallA, CallB string // "AllReduce of 1000 float32 (sum)", "Barrier"
	MismatchError = backend.MismatchError
)

// ErrClosed reports that this rank closed the group. Test for it with [errors.Is].
var ErrClosed = backend.ErrClosed

// ArgumentError reports invalid arguments. Nothing was sent, and the group stays usable.
type ArgumentError struct {
	Call string // "AllReduce"
	What string
}

func (e *ArgumentError) Error() string { return fmt.Sprintf("comm: %s: %s", e.Call, e.What) }

func wrong(kind backend.Kind, format string, args ...any) error {
	return &ArgumentError{kind.String(), fmt.Sprintf(format, args...)}
}

func noGroup(call string) error {
	return &ArgumentError{
		call,
		"this rank is in no group: the *Group is nil, which is what Split gives for a negative color",
	}
}
