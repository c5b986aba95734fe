package job

import (
	"errors"
	"fmt"
	"time"
)

// Policy says what the end of a rank means for the others. With its zero value a failure stops the job, and a success
// does not.
type Policy struct {
	// Continue lets the others go on after a failure; the job then ends with the code of the first.
	Continue bool
	// MinSuccess, with Continue, is how many ranks have to succeed for the job to succeed; 0: all of them.
	MinSuccess int
	// EarlyExit is for jobs in which all ranks should end together.
	EarlyExit EarlyExit
}

// EarlyExit says what happens when a rank has succeeded and others still run a while later.
type EarlyExit uint8

const (
	// EarlyAllowed: nothing.
	EarlyAllowed EarlyExit = iota
	// EarlyWarn: a note.
	EarlyWarn
	// EarlyFail: the job ends with exit code ExitEarly.
	EarlyFail
)

// earlyDelay is how much later than the first the others may end.
const earlyDelay = 10 * time.Second

func (p Policy) validate() error {
	switch {
	case p.MinSuccess < 0:
		return fmt.Errorf("--min-success %d: must not be negative", p.MinSuccess)
	case p.MinSuccess > 0 && !p.Continue:
		return errors.New("--min-success needs --on-failure continue")
	}
	return nil
}

func (p Policy) check(ranks int) error {
	if p.MinSuccess > ranks {
		return fmt.Errorf("--min-success %d: the job has %s", p.MinSuccess, plural(ranks, "rank"))
	}
	return nil
}

// Restarts says when a job with a failed rank is started again, with all its ranks.
type Restarts struct {
	// Max is the number of restarts, 0: none.
	Max int
	// Delay is the time before the first; it doubles with each, up to MaxDelay. 0 means DefaultRestartDelay; a negative
	// value, none.
	Delay time.Duration
	// Window is how long an attempt has to run to be healthy: its failure counts as the first then. 0: none is.
	Window time.Duration
	// NodeLosses is how many nodes the job may lose, beside Max, if it has MinNodes. 0: all above MinNodes.
	NodeLosses int
}

// Limits of the delay before a restart.
const (
	DefaultRestartDelay = time.Second
	MaxDelay            = time.Minute
)

// RestartBudget counts restarts.
type RestartBudget struct {
	Restarts
	Used int // since the start, or the last healthy attempt
	Lost int // nodes
}

// Next reports whether a job with a result is started again, and after which delay. Only the failure of a rank or the
// loss of nodes is worth a restart.
func (b *RestartBudget) Next(r *Result, lost int) (delay time.Duration, again bool) {
	if r.Cause != CauseRank && r.Cause != CauseNode {
		return 0, false
	}
	if lost > 0 && b.NodeLosses > 0 {
		b.Lost += lost
		return 0, b.Lost <= b.NodeLosses
	}
	if b.Window > 0 && time.Duration(r.After) >= b.Window {
		b.Used = 0
	}
	if b.Used >= b.Max {
		return 0, false
	}
	delay = b.Delay
	if delay == 0 {
		delay = DefaultRestartDelay
	}
	delay = max(delay, 0)
	for i := 0; i < b.Used && delay < MaxDelay; i++ {
		delay *= 2
	}
	b.Used++
	return min(delay, max(MaxDelay, b.Delay)), true
}

// Attempt is the result of an attempt that was followed by another.
type Attempt struct {
	Attempt int      `json:"attempt"`                 // number of the attempt, from 0
	First   *Failure `json:"first_failure,omitempty"` // failure that ended the attempt; absent without one
	After   Seconds  `json:"after_seconds"`           // from the start of the ranks to that failure
	// Text explains a cause that is not a rank.
	Text string `json:"text,omitempty"`

	how string
}

// NewAttempt keeps what later reports show of an attempt's result.
func NewAttempt(number int, r *Result, name SignalNamer) Attempt {
	a := Attempt{Attempt: number, First: r.First, After: r.After, Text: r.Text}
	if r.First != nil {
		a.how = how(r.First.RankEnd, name)
	}
	return a
}
