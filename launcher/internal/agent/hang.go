package agent

import (
	"context"
	"os"
	"sync"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/stacks"
	"gorun/launcher/internal/wire"
)

// watchHang looks whether anything of the job can be seen to go on: output of any
// rank, also into files, or progress in the store. CPU time is no sign of it: a rank that
// waits in a collective spins.
func (j *running) watchHang() {
	limit := j.start.HangTimeout
	if limit <= 0 {
		return
	}
	w := &quiet{job: j, limit: limit, signs: j.signs}
	w.report = func(from, to cpuSample) {
		m := wire.Hung{Quiet: limit, At: time.Now(), Ranks: j.hungRanks(from, to)}
		_ = j.agent.link.Send(&m) // the head may be gone
	}
	w.watch()
}

// signs is different whenever something has gone on.
func (j *running) signs() []int64 {
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

// atOnce is how many processes are looked into at the same time.
const atOnce = 4

// stackTime is how long looking into processes may take in all.
const stackTime = 10 * time.Second

// hungRanks says what each rank is doing.
func (j *running) hungRanks(from, to cpuSample) []wire.HungRank {
	list, keys := make([]wire.HungRank, len(j.start.Ranks)), j.keysWaitedFor()
	ctx, cancel := context.WithTimeout(context.Background(), stackTime)
	defer cancel()
	var busy sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, row := range j.start.Ranks {
		a := j.state(row.Rank, from, to)
		list[i] = wire.HungRank{Rank: a.Rank, PID: a.PID, Standing: a.Standing, CPU: a.CPU, Keys: keys[a.Rank]}
		if j.ranks[row.Rank].end.Load() == nil {
			places <- struct{}{}
			busy.Go(func() { list[i].Stack = stacks.Of(ctx, a.PID); <-places })
		}
	}
	busy.Wait()
	return list
}

// keysWaitedFor are what ranks wait for in the store.
func (j *running) keysWaitedFor() map[int][]string {
	keys := map[int][]string{}
	if server := j.agent.store.server; server != nil {
		for _, wait := range j.storeWaits(server) {
			keys[wait.Rank] = append(keys[wait.Rank], wait.Keys...)
		}
	}
	return keys
}
