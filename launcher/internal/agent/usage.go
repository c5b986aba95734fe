package agent

import (
	"time"

	"gorun/internal/peersocket"
	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// query handles a Usage frame.
func (j *job) query(request wire.Usage) {
	if request.Evidence > 0 && !j.collecting.begin() { // now, as the job may be about to end
		request.Evidence = 0
	}
	if !j.answerQuery(func(done func()) { j.usage(request, done) }) && request.Evidence > 0 {
		j.collecting.end()
	}
}

// usage answers a Usage frame.
func (j *job) usage(request wire.Usage, done func()) {
	if request.Evidence > 0 {
		defer j.collecting.end()
	}
	<-j.startDone
	if !request.Stacks || request.RAS {
		defer done()
		if request.RAS {
			j.sendRAS(request)
		} else {
			j.sendUsage(request, nil)
		}
		return
	}
	from := sampleCPU(j.rankPIDs())
	j.timers.after(cpuSampleTime, func() {
		defer done()
		if j.checksForMPI() {
			j.checkForMPI(true)
		}
		j.sendUsage(request, j.inspectRanks(from, sampleCPU(j.rankPIDs())))
	})
}

// sendUsage sends the ranks' resource usage and, if they were inspected, what they are doing.
func (j *job) sendUsage(request wire.Usage, seen []*inspection) {
	doing := map[int]*inspection{}
	for _, l := range seen {
		if len(l.Stack) == 0 {
			l.Stack = l.kernel
		}
		doing[l.Rank] = l
	}
	var loads map[int]process.Load
	var sockets map[uint64]int64
	var mains *process.MainThreads
	var err error
	if request.Signs {
		sockets, _ = peersocket.Traffic() // else what passes through the host's interfaces must do
		mains = &j.mains
	}
	if request.Evidence == 0 { // which is wanted soon, and loads take all processes of the host
		loads, err = process.Loads(j.rankPIDs(), sockets, mains)
	}
	m := wire.Used{Call: request.Call, At: time.Now()}
	if request.Evidence > 0 && j.agent.cfg.Joined == nil { // no head reads files of a node that joined
		if request.Dumps {
			j.requestDumps()
		}
		m.Evidence = j.evidence(request.Evidence)
	}
	var keys map[int][]string
	var waits map[int]*spec.MPIWait
	if request.Signs || request.Evidence > 0 {
		keys, waits = j.keysWaitedFor(), j.mpi.waits()
	}
	if request.Signs {
		m.Progress, m.Network = j.progress(), networkBytes()
	}
	if request.GPUs {
		m.GPUs = j.gpuUse()
	}
	for _, row := range j.rows() {
		r := j.rank(row.Rank)
		if r == nil { // reaped
			continue
		}
		u := wire.RankUsage{CPUTime: -1, Memory: -1, IO: -1, Printed: j.bytesPrinted(r)}
		if l := doing[row.Rank]; l != nil {
			u.Activity = l.Activity
		} else {
			u.Activity = j.state(row.Rank, cpuSample{}, cpuSample{})
			u.Keys, u.MPI, u.LastLine = keys[row.Rank], waits[row.Rank], j.lastOutputLine(row)
		}
		if load, known := loads[u.PID]; known && err == nil && r.end.Load() == nil {
			u.CPUTime, u.Memory, u.IO, u.TCP = load.CPU, load.Memory, load.IO, load.TCP
			u.MainCPU, u.Runs, u.Received = load.Main.CPU, load.Main.Runs, load.Main.Received
		}
		m.Ranks = append(m.Ranks, u)
	}
	_ = j.agent.link.Send(&m) // the head may be gone
}

// lastOutputLine returns a rank's last line if the head does not have it.
func (j *job) lastOutputLine(row wire.Row) string {
	if last := j.lastLogged(row); last != "" {
		return last
	}
	if last := j.display.last(row.Rank); len(last) > 0 {
		return last[len(last)-1]
	}
	return ""
}

// bytesPrinted returns the bytes that a rank has printed, also into its own files; -1 if it writes to the terminal
// itself.
func (j *job) bytesPrinted(r *rank) int64 {
	if j.start.Stdio.Terminal {
		return -1
	}
	printed := r.printed.Load()
	if j.logs == nil || r.row.Spawned || !j.logs.Files() {
		return printed
	}
	for _, stream := range []int{output.Stdout, output.Stderr} {
		if !redirected(j.start.Logs, r.row.LocalRank, stream) {
			continue
		}
		if size, ok := j.logs.Size(r.row.LocalRank, stream); ok {
			printed += size
		}
	}
	return printed
}
