package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/stacks"
	"gorun/launcher/internal/wire"
)

// watchHang looks whether anything of the job can be seen to go on: output of any
// rank, also into files, or progress in the store. CPU time is no sign of it: a rank that
// waits in a collective spins.
func (j *job) watchHang() {
	limit := j.start.HangTimeout
	if limit <= 0 {
		return
	}
	w := &stallDetector{job: j, limit: limit, signs: j.signs}
	w.report = j.reportHang
	w.watch()
}

// signs is different whenever something has gone on.
func (j *job) signs() []int64 {
	signs := []int64{j.printed.Load()}
	if server := j.agent.store.server; server != nil {
		signs = append(signs, server.Snapshot().Progress)
	}
	return append(signs, j.logSizes()...)
}

// logSizes are those of the files that ranks write themselves.
func (j *job) logSizes() (sizes []int64) {
	if j.logs == nil {
		return nil
	}
	for _, row := range j.rows() {
		for _, stream := range []int{output.Stdout, output.Stderr} {
			if size, ok := j.logs.Size(row.LocalRank, stream); ok {
				sizes = append(sizes, size)
			}
		}
	}
	return sizes
}

// atOnce is how many processes are looked into at the same time.
const maxParallelInspections = 4

// stackTime is how long looking into processes may take in all, and again their
// answers.
const stackTime = 10 * time.Second

// look is what can be seen of a rank from outside.
type inspection struct {
	spec.Activity
	// main is the process that does the rank's work: not the shell that waits for it.
	// Its PID is 0 where none runs.
	main    process.Proc
	program stacks.Program
	kernel  []string // where nothing better is known
}

// reportHang says what each rank is doing. Where the job ends anyway, programs whose
// stacks cannot be seen are asked for them, which they may not survive: the ends of
// ranks are told afterwards, so that none of them passes for the cause.
func (j *job) reportHang(from, to cpuSample) {
	j.report(wire.Inspect{Quiet: j.start.HangTimeout, Stop: j.start.HangStop, RAS: true}, from, to)
}

// inspect is for a job of several nodes, where the head alone knows that it hangs.
func (j *job) inspect(request wire.Inspect, done func()) {
	<-j.startDone
	from := sampleCPU(j.rankPIDs())
	j.timers.after(cpuSampleTime, func() {
		defer done()
		j.report(request, from, sampleCPU(j.rankPIDs()))
	})
}

func (j *job) report(request wire.Inspect, from, to cpuSample) {
	if j.checksForMPI() {
		j.checkForMPI(true)
	}
	m := wire.Hung{Quiet: request.Quiet}
	answer := make(chan []byte, 1)
	go func() {
		text, _ := j.queryRAS(request.RAS) // most programs have no NCCL
		answer <- text
	}()
	list := j.inspectRanks(from, to)
	m.RAS = <-answer // before ranks are asked, which they may not survive
	j.endings.hold()
	defer j.endings.release()
	m.At = time.Now()
	if request.Stop {
		flush := j.queryStacks(list)
		defer flush()
	}
	for _, l := range list {
		if len(l.Stack) == 0 {
			l.Stack = l.kernel
		}
		m.Ranks = append(m.Ranks, l.Activity)
	}
	// Later it would pass for the next attempt's.
	j.timers.unlessOver(func() { _ = j.agent.link.Send(&m) }) // the head may be gone
}

// lookIntoRanks sees what each rank is doing without a change to any.
func (j *job) inspectRanks(from, to cpuSample) []*inspection {
	rows := j.rows()
	list, keys, waits := make([]*inspection, len(rows)), j.keysWaitedFor(), j.mpi.waits()
	members, _ := process.Members(j.rankPIDs()) // without it each rank is its first process
	ctx, cancel := context.WithTimeout(context.Background(), stackTime)
	defer cancel()
	var busy sync.WaitGroup
	places := make(chan struct{}, maxParallelInspections)
	for i, row := range rows {
		a := j.state(row.Rank, from, to)
		list[i] = &inspection{Activity: spec.Activity{
			Rank: a.Rank, PID: a.PID, State: a.State, CPU: a.CPU,
			Keys: keys[a.Rank], MPI: waits[a.Rank],
		}}
		if r := j.rank(row.Rank); r != nil && r.end.Load() == nil {
			places <- struct{}{}
			busy.Go(func() { list[i].inspect(ctx, members[a.PID]); <-places })
		}
		if last := j.lastLogged(row); last != "" {
			list[i].LastLine = last
		}
	}
	busy.Wait()
	return list
}

// lastLogged is the last line of a rank that writes into files itself.
func (j *job) lastLogged(row wire.Row) string {
	if j.logs == nil || row.Spawned { // such have no files, and the place of one of the first ranks
		return ""
	}
	if last := j.logs.Last(row.LocalRank, 1); len(last) > 0 {
		return last[0]
	}
	return ""
}

// into looks into the rank, of whose session these are the processes.
func (l *inspection) inspect(ctx context.Context, members []process.Proc) {
	first, err := process.Describe(l.PID)
	if err != nil {
		return
	}
	l.main = worker(first, members)
	if l.main.PID != first.PID && l.State == (process.Proc{State: 'S'}).StateName() {
		l.State = l.main.StateName()
	}
	l.program = stacks.ProgramOf(l.main.PID)
	l.Wait, l.kernel = stacks.WaitChannel(l.main.PID), stacks.Kernel(l.main.PID)
	if l.CPU >= busy && l.main.Busy() {
		l.State, l.Wait = process.Proc{State: 'R'}.StateName(), ""
	}
	if l.program == stacks.Python {
		l.Stack = stacks.PySpy(ctx, l.main.PID)
	}
}

// busy is the use of a CPU, in percent, from which a thread that runs is no accident.
const busy = 20

// nesting bounds how many shells may stand around a program.
const nesting = 8

// worker follows processes that only wait for a child down to the one that does
// something: of several children one whose stack can be had.
func worker(p process.Proc, members []process.Proc) process.Proc {
	for range nesting {
		if stacks.ProgramOf(p.PID) != stacks.Other || !stacks.WaitsForChild(p.PID) {
			return p
		}
		var children []process.Proc
		for _, m := range members {
			if m.PPID == p.PID && m.State != 'Z' {
				children = append(children, m)
			}
		}
		if len(children) == 0 {
			return p
		}
		best := slices.IndexFunc(children, func(c process.Proc) bool { return stacks.ProgramOf(c.PID) != stacks.Other })
		p = children[max(best, 0)]
	}
	return p
}

// keysWaitedFor are what ranks wait for in the store.
func (j *job) keysWaitedFor() map[int][]string {
	keys := map[int][]string{}
	if server := j.agent.store.server; server != nil {
		for _, wait := range j.storeWaits(server) {
			keys[wait.Rank] = append(keys[wait.Rank], wait.Keys...)
		}
	}
	return keys
}
