package job

import (
	"errors"
	"fmt"
	"time"
)

// Policy is what the end of a rank means for the others. Its zero value: a failure
// stops the job, a rank that ends well does not.
type Policy struct {
	// Continue has the others go on after a failure; the job then ends with the
	// code of the first.
	Continue bool
	// MinSuccess, with Continue, makes it a success if so many ranks end with exit
	// code 0; 0 asks for all of them.
	MinSuccess int
	// EarlyExit is for jobs in which no rank may end long before the others.
	EarlyExit EarlyExit
}

// EarlyExit says what happens when a rank has ended with exit code 0 and others
// still run a while later.
type EarlyExit uint8

const (
	// EarlyAllowed: nothing.
	EarlyAllowed EarlyExit = iota
	// EarlyWarn: a remark.
	EarlyWarn
	// EarlyFail: the job ends with exit code ExitEarly.
	EarlyFail
)

// earlyDelay is how much later than the first the others may end.
const earlyDelay = 10 * time.Second

func (p Policy) validate() error {
	switch {
	case p.MinSuccess < 0:
		return fmt.Errorf("--min-success %d: it cannot be negative", p.MinSuccess)
	case p.MinSuccess > 0 && !p.Continue:
		return errors.New("--min-success counts ranks after a failure: it needs --on-failure continue")
	}
	return nil
}

// check compares what is asked for with the job.
func (p Policy) check(ranks int) error {
	if p.MinSuccess > ranks {
		return fmt.Errorf("--min-success %d: the job has %s", p.MinSuccess, plural(ranks, "rank"))
	}
	return nil
}

// Restarts is when a job whose rank failed is started again, with all its ranks.
type Restarts struct {
	// Max is the number of restarts, 0: none.
	Max int
	// Delay is the time before the first; it doubles with each, up to MaxDelay. 0
	// means DefaultRestartDelay; a negative value, none.
	Delay time.Duration
	// Window is how long an attempt has to have run to be taken for healthy: its
	// failure counts as the first then. 0: never.
	Window time.Duration
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
}

// Next reports whether a job that ended so is started again, and after which delay.
// Only the failure of a rank, or the loss of a node, is worth it: what somebody ended should stay
// ended.
func (b *RestartBudget) Next(r *Result) (delay time.Duration, again bool) {
	if r.Cause != CauseRank && r.Cause != CauseNode {
		return 0, false
	}
	if b.Window > 0 && r.After >= b.Window {
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

// Attempt is how an attempt ended that was followed by another.
type Attempt struct {
	Attempt int           `json:"attempt"`
	First   *Failure      `json:"first,omitempty"`
	After   time.Duration `json:"after_ns"`
	// Text says what went wrong where it was not a rank.
	Text string `json:"text,omitempty"`

	how string
}

// NewAttempt keeps of an attempt's result what reports say of it later.
func NewAttempt(number int, r *Result, name SignalNamer) Attempt {
	a := Attempt{Attempt: number, First: r.First, After: r.After, Text: r.Text}
	if r.First != nil {
		a.how = how(r.First.RankEnd, name)
	}
	return a
}
