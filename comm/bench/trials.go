package bench

import (
	"context"
	"math"
	"slices"
	"time"

	"gorun/comm"
)

const (
	// batchTime is how long the calls of a trial take together, at least: the clock and the barrier before them then
	// are no part of it.
	batchTime = 50 * time.Microsecond
	// longestBatch bounds the calls of a trial.
	longestBatch = 1000
	// fewestTrials and mostTrials bound the trials of a size where none are given.
	fewestTrials, mostTrials = 5, 1000
)

// Times are those of one call, in microseconds, over all trials: each that of the slowest rank.
type Times struct {
	Min    float64 `json:"min_us"`
	Median float64 `json:"median_us"`
	Max    float64 `json:"max_us"`
	// Spread is the distance of the quartiles, in percent of the median: a single trial in which the host did something
	// else is not seen in it.
	Spread float64 `json:"spread_percent"`
	Trials int     `json:"trials"`
	Batch  int     `json:"calls_per_trial"`
}

// timesOf sorts and sums up the times of trials.
func timesOf(microseconds []float64, batch int) Times {
	slices.Sort(microseconds)
	n := len(microseconds)
	t := Times{
		Min: microseconds[0], Median: (microseconds[(n-1)/2] + microseconds[n/2]) / 2, Max: microseconds[n-1],
		Trials: n, Batch: batch,
	}
	if t.Median > 0 {
		t.Spread = 100 * (microseconds[n-1-(n-1)/4] - microseconds[(n-1)/4]) / t.Median
	}
	return t
}

// trials measures the call that the vectors are prepared for; wanted is how many trials, 0 as many as there is time
// for.
func (b *bench) trials(ctx context.Context, wanted int) (Times, error) {
	batch, trials, err := b.plan(ctx)
	if err != nil {
		return Times{}, err
	}
	if wanted > 0 {
		trials = wanted
	}
	mine := make([]float64, trials)
	for i := range mine {
		took, err := b.trial(ctx, batch)
		if err != nil {
			return Times{}, err
		}
		mine[i] = float64(took) / float64(time.Microsecond) / float64(batch)
		if b.operation.name == "p2p" { // a call is a message there and one back
			mine[i] /= 2
		}
	}
	if err := comm.AllReduce(ctx, b.group, mine, mine, comm.Max); err != nil {
		return Times{}, err
	}
	return timesOf(mine, batch), nil
}

// plan warms up and says how many calls a trial has and how many trials there is time for, the same at all ranks.
func (b *bench) plan(ctx context.Context) (batch, trials int, err error) {
	calls := max(b.Warmup, 1)
	var all, each time.Duration // of a trial with its filling, of a call
	for {
		begun := time.Now()
		took, err := b.trial(ctx, calls)
		if err != nil {
			return 0, 0, err
		}
		slowest := []int64{int64(took), int64(time.Since(begun) - took)}
		if err := comm.AllReduce(ctx, b.group, slowest, slowest, comm.Max); err != nil {
			return 0, 0, err
		}
		each = max(time.Duration(slowest[0])/time.Duration(calls), time.Nanosecond)
		batch = int(min(max((batchTime+each-1)/each, 1), longestBatch))
		all = time.Duration(slowest[1]) + time.Duration(batch)*each
		if calls >= batch/2 { // enough of them to tell
			break
		}
		calls = batch
	}
	trials = int(b.PerSize / max(all, 1))
	return batch, min(max(trials, fewestTrials), mostTrials), nil
}

// trial is one batch of calls.
func (b *bench) trial(ctx context.Context, batch int) (time.Duration, error) {
	v := b.vectors
	if err := v.fill(); err != nil {
		return 0, err
	}
	if err := comm.Barrier(ctx, b.group); err != nil {
		return 0, err
	}
	begun := time.Now()
	for range batch {
		v.touch()
		if err := v.call(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}

// bound is the bandwidth, as busbw, that is not to be exceeded at a size: what the link carries, or what follows from
// the bytes that memory must move, at the speed with which all ranks at once copy as many bytes at this very moment. 0
// is not known.
func (b *bench) bound(ctx context.Context, s size) (gigabytes float64, err error) {
	n := float64(b.group.Size())
	part := b.operation.traffic(n)
	switch {
	case s.bytes == 0 || b.operation.factor(n) == 0:
		return 0, nil
	case b.Link > 0:
		return b.Link / 1e9, nil
	case b.group.Backend() != "cpu": // graphics memory is not the CPU's; --link-bandwidth tells the bound
		return 0, nil
	}
	copying, err := b.copying(ctx, s)
	if err != nil || part == 0 {
		return 0, err
	}
	seconds := part * float64(s.bytes) / copying
	return b.operation.factor(n) * float64(s.bytes) / seconds / 1e9, nil
}

// piece is the bytes of a copy that Go's runtime makes through the caches; what is much longer it writes past them.
const piece = 256 << 10

// copying is how many bytes a second each rank copies while all do: from one buffer to the other, through the caches or
// past them, or, where the operation has a form in place, within one buffer; whichever is the fastest.
func (b *bench) copying(ctx context.Context, s size) (bytesPerSecond float64, err error) {
	v, count, pieces := b.vectors, int(s.bytes)/b.element.size, piece/b.element.size
	ways := []struct {
		use   bool
		times float64 // of it are one copy
		copy  func()
	}{
		{true, 1, func() { v.copy(count, count) }},
		{count > pieces, 1, func() { v.copy(count, pieces) }},
		{b.operation.inPlace && count > 1, 2, func() { v.shift(count/2, pieces) }},
	}
	best := math.Inf(1)
	for _, way := range ways {
		if !way.use {
			continue
		}
		took, err := b.timeOf(ctx, s, way.copy)
		if err != nil {
			return 0, err
		}
		best = min(best, way.times*took)
	}
	return float64(s.bytes) / max(best, 1e-9), nil
}

// timeOf is the least time, in seconds, that something with so many bytes takes on the slowest rank while all do it.
func (b *bench) timeOf(ctx context.Context, s size, work func()) (seconds float64, err error) {
	const times = 4
	const assumed = 10 // bytes a nanosecond, to have batches of about a fifth of batchTime
	calls := max(int(float64(batchTime.Nanoseconds())/5/max(float64(s.bytes)/assumed, 5)), 1)
	took := make([]float64, times+1)
	for i := range took { // the first one fetches what the caches lack
		if err := comm.Barrier(ctx, b.group); err != nil {
			return 0, err
		}
		begun := time.Now()
		for range calls {
			work()
		}
		took[i] = time.Since(begun).Seconds() / float64(calls)
	}
	took = took[1:]
	err = comm.AllReduce(ctx, b.group, took, took, comm.Max)
	return slices.Min(took), err
}

// calibrate measures the smallest and the largest size for the model.
func (b *bench) calibrate(ctx context.Context) (*Model, error) {
	if len(b.sizes) < 2 || b.group.Size() < 2 {
		return nil, nil
	}
	ends := [2]size{b.sizes[0], b.sizes[len(b.sizes)-1]}
	var times [2]float64 // the least of few trials: what disturbs them is no part of a model
	for i, s := range ends {
		b.vectors.prepare(s.count, !b.operation.outOfPlace)
		t, err := b.trials(ctx, 2*fewestTrials)
		if err != nil {
			return nil, err
		}
		times[i] = t.Min
	}
	return fit(b.operation, b.group.Size(), ends[0].bytes, times[0], ends[1].bytes, times[1]), nil
}
