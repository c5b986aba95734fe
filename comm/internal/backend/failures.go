package backend

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNoCgo is the error of every back end function in a program that was built without cgo.
var ErrNoCgo = errors.New(
	"this program was built without cgo, which collectives need: build it with CGO_ENABLED=1 and a C compiler")

// Reader identifies the rank that gets an error, because the text depends on it. The zero Reader is outside the group.
type Reader struct {
	Me  int
	Job []int // each rank's number in the job; nil if the numbers are the same
	// Apart means that another rank's call failed, and this rank was not in the same call.
	Apart bool
	known bool // false in the zero Reader
}

// For sets the reader of err, which must be new and one of this package's error types, and returns it.
func (r Reader) For(err error) error {
	r.known = true
	switch e := err.(type) {
	case *PeerError:
		e.reader = r
	case *TimeoutError:
		e.reader = r
	case *MismatchError:
		e.reader = r
	}
	return err
}

// Rank describes a rank of the group.
func (r Reader) Rank(rank int) string {
	if rank < len(r.Job) {
		return fmt.Sprintf("rank %d of the group (rank %d of the job)", rank, r.Job[rank])
	}
	return fmt.Sprintf("rank %d", rank)
}

// Ranks describes several ranks, as [Ranks] does.
func (r Reader) Ranks(ranks []int) string {
	if len(ranks) == 1 {
		return r.Rank(ranks[0])
	}
	text := Ranks(ranks)
	if r.Job == nil || len(ranks) == 0 {
		return text
	}
	in := make([]int, len(ranks))
	for i, rank := range ranks {
		in[i] = r.Job[rank]
	}
	return fmt.Sprintf("%s of the group (%s of the job)", text, Ranks(in))
}

// blamed describes ranks to a reader that may be one of them.
func (r Reader) blamed(ranks []int) string {
	switch {
	case !r.known || !slices.Contains(ranks, r.Me):
		return r.Ranks(ranks)
	case len(ranks) > 1:
		return fmt.Sprintf("%s, of which this is rank %d", r.Ranks(ranks), r.Me)
	case r.Me < len(r.Job):
		return fmt.Sprintf("this rank (%d of the group, %d of the job)", r.Me, r.Job[r.Me])
	}
	return fmt.Sprintf("this rank (%d)", r.Me)
}

// PeerError reports that a rank died or left while other ranks needed it.
type PeerError struct {
	Rank int    // the lost rank
	How  string // "its process ended", "it closed the group"
	Call string // the current call, "" if none
	By   int    // the rank that noticed, during Call

	reader Reader
}

func (e *PeerError) Error() string {
	text := fmt.Sprintf("%s is lost: %s", e.reader.blamed([]int{e.Rank}), e.How)
	switch {
	case e.Call == "":
		return text
	case e.reader.Apart:
		return fmt.Sprintf("%s (noticed by %s during %s)", text, e.reader.Rank(e.By), e.Call)
	}
	return fmt.Sprintf("%s (during %s)", text, e.Call)
}

// TimeoutError reports that ranks did not arrive within the group's CommTimeout.
type TimeoutError struct {
	Ranks []int // the late ranks, ascending
	Call  string
	After time.Duration
	By    int // the rank that waited, in Call

	reader Reader
}

func (e *TimeoutError) Error() string {
	r := e.reader
	if r.known && e.By != r.Me && (r.Apart || slices.Contains(e.Ranks, r.Me)) {
		return fmt.Sprintf("%s ended the group: it waited %v for %s in %s", r.Rank(e.By), e.After, r.blamed(e.Ranks), e.Call)
	}
	return fmt.Sprintf("%s: no answer from %s within %v", e.Call, r.blamed(e.Ranks), e.After)
}

// Timeout makes os.IsTimeout and net.Error recognize the error as a timeout.
func (e *TimeoutError) Timeout() bool { return true }

// MismatchError reports two ranks that made different calls.
type MismatchError struct {
	Sequence     uint64 // the call's number in the group, from 1; 0 if one is a message
	RankA, RankB int
	CallA, CallB string

	reader Reader
}

func (e *MismatchError) Error() string {
	about := "ranks made calls that never meet"
	if e.Sequence > 0 {
		about = fmt.Sprintf("ranks disagree about call %d of the group", e.Sequence)
	}
	return fmt.Sprintf("%s: %s called %s, %s called %s", about, e.reader.Rank(e.RankA), e.CallA, e.reader.Rank(e.RankB),
		e.CallB)
}

// ErrClosed reports that the group is closed.
var ErrClosed = errors.New("the group is closed")

// Ranks formats rank numbers: "rank 3", "ranks 1, 4 and 7".
func Ranks(ranks []int) string {
	switch len(ranks) {
	case 0:
		return "no rank"
	case 1:
		return fmt.Sprintf("rank %d", ranks[0])
	}
	text := "ranks "
	for i, rank := range ranks {
		switch {
		case i == len(ranks)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += fmt.Sprint(rank)
	}
	return text
}
