package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	// Delay is the time before each; it doubles with each attempt without progress, up to MaxDelay. 0 means
	// DefaultRestartDelay, and none after progress; a negative value, none.
	Delay time.Duration
	// Window is how long a failure counts. 0: for ever.
	Window time.Duration
	// NodeLosses is how many nodes the job may lose, beside Max, if it has MinNodes. 0: all above MinNodes.
	NodeLosses int
	// Stalled is how many restarts in a row may follow attempts without progress. 0: all, but DefaultStalled of those
	// after a checkpoint.
	Stalled int
	// OnCodes are exit codes that mean "checkpointed": the job goes on, in a scheduler's queue or at once.
	OnCodes []int
	// ProgressFile is the path of a file or directory here whose change is progress. "": an attempt makes progress that
	// runs for Window, or for DefaultProgress without one, or ends with a checkpoint after 10 s or a notice.
	ProgressFile string
}

// Limits of the delay before a restart.
const (
	DefaultRestartDelay = time.Second
	MaxDelay            = time.Minute
)

// Defaults of the rules for progress.
const (
	DefaultStalled  = 3
	DefaultProgress = time.Minute
	// checkpointProgress is how long an attempt that ends with a checkpoint of its own accord has to run, so that a job
	// that only loads and saves is not restarted for ever.
	checkpointProgress = 10 * time.Second
)

// RestartBudget counts restarts.
type RestartBudget struct {
	Restarts
	Used int // by failures of ranks, within Window
	Lost int // nodes
	// Requeues is how often a scheduler has run the job before. It counts after a checkpoint without progress.
	Requeues int

	failures []time.Duration // when they happened, after the job's start
	stalled  int             // attempts in a row without progress
}

// AttemptEnd is what a RestartBudget needs to know of an attempt.
type AttemptEnd struct {
	*Result
	Lost   int           // number of nodes
	At     time.Duration // after the job's start
	Useful time.Duration // how much of the attempt brought progress
}

// Checkpointed reports whether a rank ended the job with an exit code that means so.
func (r *Restarts) Checkpointed(e *Result) bool {
	return e.First != nil && (e.Cause == CauseRank || e.Cause == CausePreempted) && slices.Contains(r.OnCodes, e.ExitCode)
}

// Next reports whether a job is started again after an attempt, and after which delay. Only a checkpoint, the failure
// of a rank, and nodes that are lost or have joined are worth a restart.
func (b *RestartBudget) Next(e AttemptEnd) (delay time.Duration, again bool) {
	checkpointed := b.Checkpointed(e.Result)
	joined := e.Cause == CauseJoined
	if e.Cause != CauseRank && e.Cause != CauseNode && !joined && !checkpointed {
		return 0, false
	}
	switch {
	case e.Useful > 0:
		b.stalled = 0
	case !joined:
		b.stalled++
	}
	stalled, most := b.stalled, b.Stalled
	if checkpointed && stalled > 0 {
		stalled, most = stalled+b.Requeues, cmp.Or(most, DefaultStalled)
	}
	if most > 0 && stalled > most {
		text := plural(b.stalled, "attempt") + " in a row without progress"
		if stalled > b.stalled {
			text += " after " + plural(b.Requeues, "requeue")
		}
		if checkpointed && b.ProgressFile == "" {
			text += "; a checkpoint counts after " + round(Seconds(checkpointProgress))
		}
		e.GaveUp = fmt.Sprintf("no restart: %s (--max-no-progress-restarts %d)", text, most)
		return 0, false
	}
	switch {
	case checkpointed, joined:
		return 0, true
	case e.Lost > 0 && b.NodeLosses > 0:
		b.Lost += e.Lost
		return 0, b.Lost <= b.NodeLosses
	case b.Window > 0:
		b.failures = slices.DeleteFunc(b.failures, func(at time.Duration) bool { return e.At-at >= b.Window })
	}
	b.Used = len(b.failures)
	if b.Used >= b.Max {
		return 0, false
	}
	delay = b.Delay
	if delay == 0 && e.Useful == 0 {
		delay = DefaultRestartDelay
	}
	delay = max(delay, 0)
	for i := 1; i < b.stalled && delay < MaxDelay; i++ {
		delay *= 2
	}
	b.Used++
	b.failures = append(b.failures, e.At)
	return min(delay, max(MaxDelay, b.Delay)), true
}

// Useful returns how much of an attempt brought progress. With ProgressFile, changed is how long after the attempt's
// start it changed last, negative if it did not.
func (r *Restarts) Useful(e *Result, changed time.Duration) time.Duration {
	ran, least := time.Duration(e.After), cmp.Or(r.Window, DefaultProgress)
	if r.Checkpointed(e) {
		ran, least = time.Duration(e.Elapsed), checkpointProgress
		if e.Cause == CausePreempted { // it did not choose when to end
			least = 0
		}
	}
	switch {
	case r.ProgressFile != "" && changed >= 0:
		return max(min(changed, ran), 1)
	case r.ProgressFile == "" && ran >= least:
		return max(ran, 1)
	}
	return 0
}

// Goodput is how well a job used its time.
type Goodput struct {
	Total Seconds `json:"total_seconds"` // from the start of the first attempt to the end of the last
	// Lost is the time between attempts, and that of attempts without a good end after the last change of --progress-file
	// or, without that option, all of those without progress.
	Lost Seconds `json:"lost_seconds"`
	// Share is the rest of the total, from 0 to 1.
	Share float64 `json:"goodput"`
}

// NewGoodput divides a total into the useful time of all attempts and the rest.
func NewGoodput(total, useful time.Duration) *Goodput {
	total = max(total, 1)
	useful = min(useful, total)
	return &Goodput{Total: Seconds(total), Lost: Seconds(total - useful), Share: float64(useful) / float64(total)}
}

// String returns "93 %, 12s of 3m lost".
func (g *Goodput) String() string {
	return fmt.Sprintf("%.0f %%, %s of %s lost", 100*g.Share, round(g.Lost), round(g.Total))
}

// Attempt is the result of an attempt that was followed by another.
type Attempt struct {
	Attempt int      `json:"attempt"`                 // number of the attempt, from 0
	First   *Failure `json:"first_failure,omitempty"` // failure that ended the attempt; absent without one
	After   Seconds  `json:"after_seconds"`           // from the start of the ranks to that failure
	// Class is whose fault its end was, as in the report.
	Class string `json:"class,omitempty"`
	// Why says in a few words why it has that class.
	Why string `json:"why,omitempty"`
	// Text explains a cause that is not a rank.
	Text string `json:"text,omitempty"`
	// Useful is how long it made progress: until the last change of --progress-file or, without that option, to its end if
	// it ran for --restart-window (1m) or, before a checkpoint, for 10 s or until a notice.
	Useful Seconds `json:"useful_seconds,omitempty"`

	how string
}

// NewAttempt keeps what later reports show of an attempt's result.
func NewAttempt(number int, r *Result, useful time.Duration, checkpointed bool, name SignalNamer) Attempt {
	a := Attempt{Attempt: number, First: r.First, After: r.After, Text: r.Text, Useful: Seconds(useful)}
	a.Class, a.Why = r.classify()
	if r.First != nil {
		a.how = how(r.First.RankEnd, name)
	}
	if checkpointed {
		a.Text = fmt.Sprintf("checkpointed with exit code %d", r.ExitCode)
	}
	return a
}

// Summary describes in one line how the attempt ended.
func (a *Attempt) Summary() string {
	if a.Text == "" {
		return a.First.summary(a.how, a.After)
	}
	return fmt.Sprintf("%s, after %s", a.Text, round(a.After))
}
