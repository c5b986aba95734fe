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

// progress returns a number that grows with the output of ranks, also into their own files, and with activity in the
// store.
func (j *job) progress() int64 {
	sum := j.printed.Load()
	if server := j.store; server != nil {
		sum += server.Snapshot().Progress
	}
	if j.logs == nil {
		return sum
	}
	for _, row := range j.rows() {
		for _, stream := range []int{output.Stdout, output.Stderr} {
			if size, ok := j.logs.Size(row.LocalRank, stream); ok {
				sum += size
			}
		}
	}
	return sum
}

const maxParallelInspections = 4

// stackTime bounds the inspection of all ranks, and then the wait for stacks that they print.
const stackTime = 10 * time.Second

// inspection is what a rank is doing, as seen from outside.
type inspection struct {
	spec.Activity
	main    process.Proc // does the rank's work, unlike a shell that waits for it; PID 0: none
	program stacks.Program
	kernel  []string // kernel stack, if no better one is known
}

// inspect handles an Inspect frame.
func (j *job) inspect(request wire.Inspect, done func()) {
	<-j.startDone
	from := sampleCPU(j.rankPIDs())
	j.timers.after(cpuSampleTime, func() {
		defer done()
		j.report(request, from, sampleCPU(j.rankPIDs()))
	})
}

// report reports what each rank is doing. If the job ends anyway it also requests stacks by signals that ranks may not
// survive; their ends are reported afterwards, so that they do not look like the cause.
func (j *job) report(request wire.Inspect, from, to cpuSample) {
	if j.checksForMPI() {
		j.checkForMPI(true)
	}
	m := wire.Hung{Hang: spec.Hang{Quiet: request.Quiet}}
	answer := make(chan []byte, 1)
	go func() {
		text, _ := j.queryRAS(request.RAS) // most programs do not use NCCL
		answer <- text
	}()
	list := j.inspectRanks(from, to)
	m.RAS = <-answer // before queryStacks, which ranks may not survive
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
	j.timers.unlessOver(func() { _ = j.agent.link.Send(&m) }) // the head may be gone
}

// inspectRanks returns what each rank is doing, without affecting any.
func (j *job) inspectRanks(from, to cpuSample) []*inspection {
	rows := j.rows()
	list, keys, waits := make([]*inspection, len(rows)), j.keysWaitedFor(), j.mpi.waits()
	members, _ := process.Members(j.rankPIDs()) // if it fails, only leaders are inspected
	ctx, cancel := context.WithTimeout(context.Background(), stackTime)
	defer cancel()
	var busy sync.WaitGroup
	slots := make(chan struct{}, maxParallelInspections)
	for i, row := range rows {
		a := j.state(row.Rank, from, to)
		a.Keys, a.MPI = keys[a.Rank], waits[a.Rank]
		list[i] = &inspection{Activity: a}
		if r := j.rank(row.Rank); r != nil && r.end.Load() == nil {
			slots <- struct{}{}
			busy.Go(func() { list[i].inspect(ctx, members[a.PID]); <-slots })
		}
		list[i].LastLine = j.lastLogged(row)
	}
	busy.Wait()
	return list
}

// lastLogged returns the last line of a rank that writes into files itself.
func (j *job) lastLogged(row wire.Row) string {
	if j.logs == nil || row.Spawned { // spawned ranks have no files, but local ranks of others
		return ""
	}
	if last := j.logs.Last(row.LocalRank, 1); len(last) > 0 {
		return last[0]
	}
	return ""
}

// inspect fills in l. members are the processes in the rank's session.
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
	if l.Computes() && l.main.Busy() {
		l.State, l.Wait = process.Proc{State: 'R'}.StateName(), ""
	}
	if stacks.ReadsInput(l.main.PID, first.PID) {
		l.State, l.Wait = spec.ReadsInput, ""
	}
	switch l.program {
	case stacks.Python:
		l.Stack, l.Obstacle = stacks.PythonStack(ctx, l.main.PID)
	case stacks.Other:
		l.Stack, l.Obstacle = stacks.NativeStack(ctx, l.main.PID)
	}
}

// maxNesting bounds the number of shells around a program.
const maxNesting = 8

// worker descends from processes that only wait for a child to the one that works. Of several children it prefers
// one whose stack can be read.
func worker(p process.Proc, members []process.Proc) process.Proc {
	for range maxNesting {
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

// keysWaitedFor returns the keys that ranks wait for in the store.
func (j *job) keysWaitedFor() map[int][]string {
	keys := map[int][]string{}
	if server := j.store; server != nil {
		for _, wait := range j.storeWaits(server) {
			keys[wait.Rank] = append(keys[wait.Rank], wait.Keys...)
		}
	}
	return keys
}
