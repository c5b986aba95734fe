package agent

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/wire"
)

// sink receives what happens to the ranks, on the threads that started them.
type sink running

func (s *sink) Started(id, pid int) {
	s.ranks[id].pid.Store(int32(pid))
	s.guard.addRank(pid)
}

// Output passes bytes on, also into a file, and stops the reading of a stream
// whose credit is used up.
func (s *sink) Output(id, stream int, p []byte) {
	if s.logs != nil {
		if tee := s.logs.Tee(s.ranks[id].row.LocalRank, stream); tee != nil {
			s.credit.take(stream, len(p)) // given back when it is on disk
			_, _ = tee.Write(p)           // never fails: a broken disk is reported once
		}
	}
	s.credit.take(stream, len(p))
	_ = s.agent.link.Output(id, stream, p) // without a head there is nobody to tell
}

func (s *sink) Closed(id, stream int) {
	if s.logs != nil {
		if tee := s.logs.Tee(s.ranks[id].row.LocalRank, stream); tee != nil {
			_ = tee.Close()
		}
	}
	_ = s.agent.link.EOF(id, stream)
	(*running)(s).streamEnded()
}

// streamEnded counts down to the moment at which nothing more can be written.
func (j *running) streamEnded() {
	if j.open.Add(-1) == 0 {
		close(j.silent)
	}
}

func (s *sink) Exited(id int, status process.Status, at time.Time) {
	r := s.ranks[id]
	e := wire.RankExit{Rank: id, PID: int(r.pid.Load()), Code: status.Code, Signal: status.Signal, Core: status.Core, At: at}
	if e.Code != 0 || e.Signal != 0 {
		(*running)(s).explain(&e, r.row.ErrorFile)
	}
	s.exits.add(e)
}

// explain adds to a failed rank's end what only its node can know.
func (j *running) explain(e *wire.RankExit, errorFile string) {
	if errorFile != "" {
		e.ErrorFile, e.RaisedAt = readErrorFile(errorFile)
	}
	if e.Signal == syscall.SIGKILL {
		e.OOM = j.oom.reason()
	}
}

// errorFileLimit bounds what is read of an error file, in bytes.
const errorFileLimit = 64 << 10

// readErrorFile returns what a rank wrote of its own end, and when.
func readErrorFile(path string) ([]byte, time.Time) {
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, time.Time{}
	}
	text, err := io.ReadAll(io.LimitReader(f, errorFileLimit))
	if err != nil {
		return nil, time.Time{}
	}
	return text, info.ModTime()
}

// exitDelay is how long good news may wait for company: ranks that end well tend
// to do so together, and each frame wakes the head.
const exitDelay = 20 * time.Millisecond

// exits collects the ends of ranks. A failure is sent at once, with what came
// before it; so are the last ones.
type exits struct {
	job *running

	mu      sync.Mutex
	pending []wire.RankExit
	count   int
	timer   *time.Timer
}

func (x *exits) add(e wire.RankExit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = append(x.pending, e)
	x.count++
	switch {
	case e.Code != 0, e.Signal != 0, x.count == len(x.job.ranks):
		x.send()
	case x.timer == nil:
		x.timer = time.AfterFunc(exitDelay, x.flush)
	}
}

func (x *exits) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.send()
}

func (x *exits) send() {
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if len(x.pending) > 0 {
		_ = x.job.agent.link.Send(&wire.Exited{Ranks: x.pending})
		x.pending = nil
	}
}
