package bench

import (
	"context"
	"math"
	"slices"
	"time"

	"gorun/comm"
)

const (
	// batchTime is the least duration of a trial's calls together. It makes the overhead of the clock and the
	// barrier negligible.
	batchTime = 50 * time.Microsecond
	// longestBatch is the largest number of calls in a trial.
	longestBatch = 1000
	// fewestTrials and mostTrials limit the number of trials if none is given.
	fewestTrials, mostTrials = 5, 1000
)

// Times are the times of one call over all trials, in microseconds. The time of a trial is that of the slowest
// rank.
type Times struct {
	Min    float64 `json:"min_microseconds"`    // the fastest trial
	Median float64 `json:"median_microseconds"` // the median trial
	Max    float64 `json:"max_microseconds"`    // the slowest trial
	// Spread is the distance between the quartiles in percent of the median. A single disturbed trial does not
	// affect it.
	Spread float64 `json:"spread_percent"`
	Trials int     `json:"trial_count"`     // number of trials
	Batch  int     `json:"calls_per_trial"` // calls whose average time a trial is
}

// timesOf sorts and summarizes the times of trials.
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

// trials measures the call for which the vectors are prepared. wanted is the number of trials; 0 means as many
// as there is time for.
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
		if b.operation.name == "p2p" { // a call is a message forth and one back
			mine[i] /= 2
		}
	}
	if err := comm.AllReduce(ctx, b.group, mine, mine, comm.Max); err != nil {
		return Times{}, err
	}
	return timesOf(mine, batch), nil
}

// plan warms up. It returns the number of calls in a trial, and the number of trials that fit into the time.
// All ranks get the same numbers.
func (b *bench) plan(ctx context.Context) (batch, trials int, err error) {
	calls := max(b.Warmup, 1)
	var all, each time.Duration // of a trial with its preparation, and of a call
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
		if calls >= batch/2 { // enough calls for a good estimate
			break
		}
		calls = batch
	}
	trials = int(b.PerSize / max(all, 1))
	return batch, min(max(trials, fewestTrials), mostTrials), nil
}

// trial runs one batch of calls.
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

// bound returns the upper bound of busbw at a size; 0 means unknown. It is the bandwidth of the link, or
// follows from the least memory traffic and the current copy bandwidth of all ranks together.
func (b *bench) bound(ctx context.Context, s size) (gigabytes float64, err error) {
	n := float64(b.group.Size())
	part := b.operation.traffic(n)
	switch {
	case s.bytes == 0 || b.operation.factor(n) == 0:
		return 0, nil
	case b.Link > 0:
		return b.Link / 1e9, nil
	case b.group.Backend() != "cpu": // GPU memory has another bandwidth; --link-bandwidth sets the bound
		return 0, nil
	}
	copying, err := b.copying(ctx, s)
	if err != nil || part == 0 {
		return 0, err
	}
	seconds := part * float64(s.bytes) / copying
	return b.operation.factor(n) * float64(s.bytes) / seconds / 1e9, nil
}

// piece is the size of a copy that Go's runtime makes through the caches. It writes much longer copies past
// them.
const piece = 256 << 10

// copying returns each rank's copy bandwidth in bytes/s while all ranks copy. It is the fastest of several
// ways: between two buffers, through the caches or past them, or within a buffer if the operation works in
// place.
func (b *bench) copying(ctx context.Context, s size) (bytesPerSecond float64, err error) {
	v, count, pieces := b.vectors, int(s.bytes)/b.element.size, piece/b.element.size
	ways := []struct {
		use   bool
		times float64 // repetitions that count as one copy
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

// timeOf returns the least time of work on the slowest rank, in seconds, while all ranks do it.
func (b *bench) timeOf(ctx context.Context, s size, work func()) (seconds float64, err error) {
	const times = 4
	const assumed = 10 // bytes/ns, for batches of about a fifth of batchTime
	calls := max(int(float64(batchTime.Nanoseconds())/5/max(float64(s.bytes)/assumed, 5)), 1)
	took := make([]float64, times+1)
	for i := range took { // the first run warms up the caches
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
	var times [2]float64 // the minimum of few trials: disturbances are not part of the model
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
