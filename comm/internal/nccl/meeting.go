//go:build cgo

package nccl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"gorun/comm/internal/backend"
)

// idBytes is the size of an ncclUniqueId.
const idBytes = 128

// ranksPerID is the number of ranks that join through one unique id if the library accepts several (2.23). The rank
// with the id answers each of them.
const ranksPerID = 128

// The content of a rank's blob after its first line, which contains the library's name and version.
const (
	carriesNothing = '-'
	carriesID      = 'i'
	carriesError   = 'e'
)

// holders returns the ranks that create ids, ascending. NCCL divides the ranks into one block for each id. The first
// blocks have one rank more if the division leaves a remainder.
func holders(ranks int, scalable bool) []int {
	ids := 1
	if scalable {
		ids = (ranks + ranksPerID - 1) / ranksPerID
	}
	var first []int
	for i, at := 0, 0; i < ids; i++ {
		first = append(first, at)
		at += ranks / ids
		if i < ranks%ids {
			at++
		}
	}
	return first
}

// blob returns the data that a rank sends to the others before they join.
func blob(library string, carries byte, payload []byte) []byte {
	return append(fmt.Appendf(nil, "%s\n%c", library, carries), payload...)
}

// idsOf returns the ids from all blobs, in rank order. Every rank must have the same library. The blob of a rank that
// failed to create an id contains its error.
func idsOf(all [][]byte, rank, ranks int) ([]byte, error) {
	if len(all) != ranks {
		return nil, fmt.Errorf("the exchange gave %d blobs for %d ranks", len(all), ranks)
	}
	var ids []byte
	own, _, _ := bytes.Cut(all[rank], []byte("\n"))
	for peer, one := range all {
		library, rest, whole := bytes.Cut(one, []byte("\n"))
		switch {
		case !whole || len(rest) == 0:
			return nil, fmt.Errorf("rank %d gave a blob of %d bytes that says nothing", peer, len(one))
		case !bytes.Equal(library, own):
			return nil, fmt.Errorf("rank %d has %s, rank %d has %s: all ranks of a group need the same", rank, own, peer,
				library)
		case rest[0] == carriesError:
			return nil, fmt.Errorf("rank %d: %s", peer, rest[1:])
		case rest[0] == carriesID && len(rest) != 1+idBytes:
			return nil, fmt.Errorf("rank %d gave an id of %d bytes, not %d", peer, len(rest)-1, idBytes)
		case rest[0] == carriesID:
			ids = append(ids, rest[1:]...)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("no rank gave an id")
	}
	return ids, nil
}

// slowError is a timeout whose late ranks are unknown.
type slowError struct {
	call  string
	after time.Duration
	said  string // NCCL's last error, "" if none
}

func (e *slowError) Error() string {
	text := fmt.Sprintf("%s: not done within %v: some rank did not come, and NCCL does not say which", e.call, e.after)
	if e.said != "" {
		text += " (" + e.said + ")"
	}
	return text
}

// Timeout makes os.IsTimeout and net.Error recognize the error as a timeout.
func (e *slowError) Timeout() bool { return true }

// patience polls a condition: at first without a pause, then with pauses that double up to a millisecond. A short
// collective costs no sleep, and a long one occupies no core.
type patience struct {
	aborted <-chan struct{} // closed to end the wait
	failed  func() error    // returns an error to end the wait; can be nil
	timer   *time.Timer     // created by the first pause and reused
}

// errAborted and errTime are the reasons why await gives up.
var (
	errAborted = errors.New("aborted")
	errTime    = errors.New("out of time")
)

const (
	shortestPause = 20 * time.Microsecond
	longestPause  = time.Millisecond
	eagerLooks    = 3
)

// await calls look until it reports true or an error. limit 0 means no limit.
func (p *patience) await(ctx context.Context, limit time.Duration, look func() (bool, error)) error {
	var began time.Time
	pause := shortestPause
	for looks := 1; ; looks++ {
		if done, err := look(); done || err != nil {
			return err
		}
		if looks == 1 {
			began = time.Now()
		}
		if limit > 0 && time.Since(began) >= limit {
			return errTime
		}
		if p.failed != nil {
			if err := p.failed(); err != nil {
				return err
			}
		}
		if looks <= eagerLooks {
			pause = 0
		}
		if err := p.rest(ctx, pause); err != nil {
			return err
		}
		pause = min(max(2*pause, shortestPause), longestPause)
	}
}

// rest pauses, or returns the reason to stop waiting.
func (p *patience) rest(ctx context.Context, pause time.Duration) error {
	if p.timer == nil {
		p.timer = time.NewTimer(pause)
	} else {
		p.timer.Reset(pause)
	}
	defer p.timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.aborted:
		return errAborted
	case <-p.timer.C:
		return nil
	}
}

// describe formats a call for messages: "AllReduce of 10 float32 (sum)".
func describe(c *backend.Call) string {
	switch c.Kind {
	case backend.Barrier:
		return c.Kind.String()
	case backend.AllReduce, backend.Reduce, backend.ReduceScatter, backend.ReduceScatterV:
		return fmt.Sprintf("%v of %d %v (%v)", c.Kind, c.Count, c.DType, c.Op)
	case backend.AllToAllV:
		return fmt.Sprintf("%v of %d %v", c.Kind, sum(c.SendCounts), c.DType)
	case backend.Send:
		return fmt.Sprintf("%v of %d %v to rank %d", c.Kind, c.Count, c.DType, c.Root)
	case backend.Recv:
		return fmt.Sprintf("%v of %d %v from rank %d", c.Kind, c.Count, c.DType, c.Root)
	case backend.SendRecv:
		return fmt.Sprintf("%v of %d %v to rank %d, %d from rank %d", c.Kind, c.Count, c.DType, c.Root, c.RecvCount, c.From)
	}
	return fmt.Sprintf("%v of %d %v", c.Kind, c.Count, c.DType)
}
