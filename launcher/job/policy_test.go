package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRestartBudget(t *testing.T) {
	b := RestartBudget{Restarts: Restarts{Max: 2, Delay: 40 * time.Second, Window: time.Hour}}
	next := func(cause Cause, at time.Duration) any {
		delay, again := b.Next(AttemptEnd{Result: &Result{Cause: cause}, At: at})
		if !again {
			return "over"
		}
		return delay
	}
	assert.Equal(t, "over", next(CauseSignal, 0))
	assert.Equal(t, "over", next(CauseTimeout, 0))
	assert.Equal(t, "over", next(CauseStart, 0))
	assert.Equal(t, 40*time.Second, next(CauseRank, 0))
	assert.Equal(t, time.Minute, next(CauseRank, time.Minute), "twice that, but no more than a minute")
	assert.Equal(t, "over", next(CauseRank, time.Hour-1))
	assert.Equal(t, time.Minute, next(CauseRank, time.Hour), "the first is forgotten")
	assert.Equal(t, time.Minute, next(CauseNode, 61*time.Minute))

	b = RestartBudget{Restarts: Restarts{Max: 1}}
	assert.Equal(t, DefaultRestartDelay, next(CauseRank, 0))
	assert.Equal(t, "over", next(CauseRank, time.Hour), "without a window none is forgotten")
	b = RestartBudget{Restarts: Restarts{Max: 4}}
	for _, c := range []struct{ useful, want time.Duration }{
		{0, DefaultRestartDelay}, {0, 2 * DefaultRestartDelay}, {1, 0}, {0, DefaultRestartDelay},
	} {
		delay, _ := b.Next(AttemptEnd{Result: &Result{Cause: CauseRank}, Useful: c.useful})
		assert.Equal(t, c.want, delay)
	}
	b = RestartBudget{Restarts: Restarts{Max: 1, Delay: -1}}
	assert.Equal(t, time.Duration(0), next(CauseRank, 0))
	b = RestartBudget{Restarts: Restarts{Max: 1, Delay: time.Hour}}
	assert.Equal(t, time.Hour, next(CauseRank, 0), "a longer delay is the user's")

	b = RestartBudget{Restarts: Restarts{NodeLosses: 2}}
	for _, again := range []bool{true, true, false} {
		delay, ok := b.Next(AttemptEnd{Result: &Result{Cause: CauseNode}, Lost: 1})
		assert.Equal(t, again, ok)
		assert.Zero(t, delay, "spares are ready")
	}
	assert.Equal(t, "over", next(CauseRank, 0), "losses are counted by themselves")
}

// Attempts without progress use up a budget of their own, whatever ended them.
func TestNoProgress(t *testing.T) {
	b := RestartBudget{Restarts: Restarts{Max: 9, NodeLosses: 9, Stalled: 2}}
	again := func(cause Cause, lost int, useful time.Duration) string {
		r := &Result{Cause: cause}
		_, ok := b.Next(AttemptEnd{Result: r, Lost: lost, Useful: useful})
		assert.Equal(t, !ok, r.GaveUp != "")
		return r.GaveUp
	}
	assert.Empty(t, again(CauseRank, 0, 0))
	assert.Empty(t, again(CauseNode, 1, 0))
	assert.Empty(t, again(CauseRank, 0, 1), "progress")
	assert.Empty(t, again(CauseRank, 0, 0))
	assert.Empty(t, again(CauseNode, 1, 0))
	assert.Equal(t, "no restart: 3 attempts in a row without progress (--max-no-progress-restarts 2)",
		again(CauseNode, 1, 0))
}

// A checkpoint uses up no restarts. Without progress it does not go on for ever, and earlier runs count then.
func TestCheckpoints(t *testing.T) {
	b := RestartBudget{Restarts: Restarts{OnCodes: []int{85, 86}}}
	var gaveUp string
	again := func(cause Cause, code int, useful time.Duration) bool {
		r := &Result{Cause: cause, ExitCode: code, First: &Failure{}}
		_, ok := b.Next(AttemptEnd{Result: r, Useful: useful})
		gaveUp = r.GaveUp
		return ok
	}
	assert.False(t, again(CauseRank, 1, 0))
	assert.False(t, again(CauseTimeout, 85, 0))
	b = RestartBudget{Restarts: b.Restarts}
	for range 2 * DefaultStalled {
		assert.True(t, again(CausePreempted, 85, time.Hour))
	}
	for range DefaultStalled {
		assert.True(t, again(CauseRank, 86, 0))
	}
	assert.False(t, again(CauseRank, 86, 0))
	assert.Equal(t, "no restart: 4 attempts in a row without progress; a checkpoint counts after 10s "+
		"(--max-no-progress-restarts 3)", gaveUp)
	b = RestartBudget{Restarts: b.Restarts, Requeues: DefaultStalled}
	assert.True(t, again(CausePreempted, 85, time.Second))
	assert.False(t, again(CauseRank, 85, 0))
	assert.Equal(t, "no restart: 1 attempt in a row without progress after 3 requeues; a checkpoint counts after 10s "+
		"(--max-no-progress-restarts 3)", gaveUp)
}

func TestUseful(t *testing.T) {
	r := Restarts{OnCodes: []int{85}}
	useful := func(cause Cause, code int, ran, changed time.Duration) time.Duration {
		e := &Result{Cause: cause, ExitCode: code, First: &Failure{}, After: Seconds(ran), Elapsed: Seconds(ran)}
		return r.Useful(e, changed)
	}
	failed := func(ran, changed time.Duration) time.Duration { return useful(CauseRank, 1, ran, changed) }
	assert.Zero(t, failed(DefaultProgress-1, 5))
	assert.Equal(t, DefaultProgress, failed(DefaultProgress, -1))
	r.Window = time.Hour
	assert.Zero(t, failed(DefaultProgress, -1))
	assert.Zero(t, useful(CauseRank, 85, checkpointProgress-1, -1), "a checkpoint of its own accord")
	assert.Equal(t, checkpointProgress, useful(CauseRank, 85, checkpointProgress, -1))
	assert.Equal(t, time.Second, useful(CausePreempted, 85, time.Second, -1))
	assert.Zero(t, useful(CausePreempted, 1, time.Second, -1), "nothing was saved")
	r.ProgressFile = "checkpoint"
	assert.Zero(t, failed(2*time.Hour, -1))
	assert.Zero(t, useful(CausePreempted, 85, 2*time.Hour, -1))
	assert.Equal(t, time.Second, failed(time.Minute, time.Second))
	assert.Equal(t, time.Minute, failed(time.Minute, time.Hour), "a file server's clock may be ahead")
	assert.Positive(t, failed(time.Minute, 0), "or behind")
	assert.Equal(t, "75 %, 30s of 2m lost", NewGoodput(2*time.Minute, 90*time.Second).String())
}

func TestPolicies(t *testing.T) {
	assert.NoError(t, Policy{Continue: true, MinSuccess: 3}.validate())
	assert.ErrorContains(t, Policy{MinSuccess: 3}.validate(), "--on-failure continue")
	assert.ErrorContains(t, Policy{MinSuccess: 3}.check(2), "--min-success 3: the job has 2 ranks")
}
