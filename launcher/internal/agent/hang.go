package agent

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/stacks"
	"gorun/launcher/internal/wire"
)

// hang watches whether anything of the job can be seen to go on: output of any
// rank, also into files, or progress in the store. CPU time is no sign of it: a rank that
// waits in a collective spins.
type hang struct {
	job   *running
	limit time.Duration

	seen  []int64 // what was seen last
	since time.Time
}

func (j *running) watchHang() {
	if limit := j.start.HangTimeout; limit > 0 {
		w := &hang{job: j, limit: limit, since: time.Now()}
		w.seen = w.signs()
		w.again()
	}
}

func (w *hang) again() { w.job.timers.after(w.limit/looks, w.look) }

func (w *hang) look() {
	now := time.Now()
	if signs := w.signs(); !slices.Equal(signs, w.seen) {
		w.seen, w.since = signs, now
	}
	if quiet := now.Sub(w.since); quiet < w.limit {
		w.again()
		return
	}
	before, err := process.Usage(w.job.rankPIDs())
	if err != nil {
		before = nil
	}
	w.job.timers.after(usageTime, func() { w.report(before, now) })
}

// signs is different whenever something has gone on.
func (w *hang) signs() []int64 {
	j := w.job
	signs := []int64{j.printed.Load()}
	if server := j.agent.store.server; server != nil {
		signs = append(signs, server.Snapshot().Progress)
	}
	return append(signs, j.logSizes()...)
}

// logSizes are those of the files that ranks write themselves.
func (j *running) logSizes() (sizes []int64) {
	if j.logs == nil {
		return nil
	}
	for _, row := range j.start.Ranks {
		for _, stream := range []int{output.Stdout, output.Stderr} {
			if info, err := os.Stat(j.logs.Path(row.LocalRank, stream)); err == nil {
				sizes = append(sizes, info.Size())
			}
		}
	}
	return sizes
}

// report says once what each rank is doing, unless that is over by now.
func (w *hang) report(before map[int]process.Ticks, since time.Time) {
	if !slices.Equal(w.signs(), w.seen) {
		w.since = time.Now()
		w.again()
		return
	}
	m := wire.Hung{Quiet: time.Since(w.since), At: time.Now(), Ranks: w.ranks(before, since)}
	_ = w.job.agent.link.Send(&m) // the head may be gone
}

// atOnce is how many processes are looked into at the same time.
const atOnce = 4

// stackTime is how long looking into processes may take in all.
const stackTime = 10 * time.Second

func (w *hang) ranks(before map[int]process.Ticks, since time.Time) []wire.HungRank {
	j := w.job
	list := make([]wire.HungRank, len(j.start.Ranks))
	keys := w.keys()
	used, err := process.Usage(j.rankPIDs())
	elapsed := time.Since(since)
	ctx, cancel := context.WithTimeout(context.Background(), stackTime)
	defer cancel()
	var busy sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, row := range j.start.Ranks {
		a := j.absent(row.Rank)
		if err == nil && before != nil && a.CPU >= 0 {
			a.CPU = percent(used[a.PID]-before[a.PID], elapsed)
		}
		list[i] = wire.HungRank{Rank: a.Rank, PID: a.PID, Standing: a.Standing, CPU: a.CPU, Keys: keys[a.Rank]}
		if a.CPU >= 0 {
			places <- struct{}{}
			busy.Go(func() { list[i].Stack = stacks.Of(ctx, a.PID); <-places })
		}
	}
	busy.Wait()
	return list
}

// keys are what ranks wait for in the store.
func (w *hang) keys() map[int][]string {
	keys := map[int][]string{}
	if server := w.job.agent.store.server; server != nil {
		for _, wait := range w.job.storeWaits(server) {
			keys[wait.Rank] = append(keys[wait.Rank], wait.Keys...)
		}
	}
	return keys
}
