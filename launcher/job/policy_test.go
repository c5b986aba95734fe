package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRestartBudget(t *testing.T) {
	failed := func(after time.Duration) *Result { return &Result{Cause: CauseRank, After: Seconds(after)} }
	b := RestartBudget{Restarts: Restarts{Max: 2, Delay: 40 * time.Second, Window: time.Hour}}
	next := func(r *Result) any {
		delay, again := b.Next(r, 0)
		if !again {
			return "over"
		}
		return delay
	}
	assert.Equal(t, "over", next(&Result{Cause: CauseSignal}))
	assert.Equal(t, "over", next(&Result{Cause: CauseTimeout}))
	assert.Equal(t, "over", next(&Result{Cause: CauseStart}))
	assert.Equal(t, 40*time.Second, next(failed(time.Second)))
	assert.Equal(t, time.Minute, next(failed(time.Second)), "twice that, but no more than a minute")
	assert.Equal(t, "over", next(failed(time.Minute)))
	assert.Equal(t, 40*time.Second, next(failed(time.Hour)), "it was healthy")
	assert.Equal(t, time.Minute, next(&Result{Cause: CauseNode}))

	b = RestartBudget{Restarts: Restarts{Max: 1}}
	assert.Equal(t, DefaultRestartDelay, next(failed(time.Hour)))
	assert.Equal(t, "over", next(failed(time.Hour)), "without a window none is healthy")
	b = RestartBudget{Restarts: Restarts{Max: 1, Delay: -1}}
	assert.Equal(t, time.Duration(0), next(failed(0)))
	b = RestartBudget{Restarts: Restarts{Max: 1, Delay: time.Hour}}
	assert.Equal(t, time.Hour, next(failed(0)), "a longer delay is the user's")

	b = RestartBudget{Restarts: Restarts{NodeLosses: 2}}
	for _, again := range []bool{true, true, false} {
		delay, ok := b.Next(&Result{Cause: CauseNode}, 1)
		assert.Equal(t, again, ok)
		assert.Zero(t, delay, "spares are ready")
	}
	assert.Equal(t, "over", next(failed(0)), "losses are counted by themselves")
}

func TestPolicies(t *testing.T) {
	assert.NoError(t, Policy{Continue: true, MinSuccess: 3}.validate())
	assert.ErrorContains(t, Policy{MinSuccess: 3}.validate(), "--on-failure continue")
	assert.ErrorContains(t, Policy{MinSuccess: 3}.check(2), "--min-success 3: the job has 2 ranks")
}
