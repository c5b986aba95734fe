package agent

import (
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"gorun/launcher/internal/output"
	"gorun/launcher/internal/process"
	"gorun/launcher/internal/stacks"
)

const (
	answerTimeout = 2 * time.Second        // while no rank prints anything
	answerPause   = 100 * time.Millisecond // after which an answer without recognisable end is complete
	answerTick    = 10 * time.Millisecond
)

// queryStacks makes ranks whose stacks are unknown print them, by a signal that ends most of them, and filters the
// answers out of the output. Call flush to show what else they printed meanwhile.
func (j *job) queryStacks(list []*inspection) (flush func()) {
	queried := map[*inspection]*stackQuery{}
	for _, l := range list {
		if q := j.newStackQuery(l); q != nil {
			queried[l] = q
		}
	}
	for l, q := range queried {
		q.send(l.program)
	}
	await(queried)
	for l, q := range queried {
		if l.Stack = q.stack(); len(l.Stack) > 0 {
			l.Obstacle = ""
		}
	}
	return func() {
		for _, q := range queried {
			q.flush()
		}
	}
}

// newStackQuery prepares a query; nil: no answer can be expected.
func (j *job) newStackQuery(l *inspection) *stackQuery {
	r := j.rank(l.Rank)
	if r == nil || l.main.PID == 0 || len(l.Stack) > 0 { // reaped
		return nil
	}
	sig, ok := stacks.DumpSignal(l.main.PID, l.program)
	if !ok {
		return nil
	}
	if err := l.main.PreventCore(); sig == syscall.SIGABRT && err != nil {
		return nil
	}
	q := &stackQuery{job: j, rank: r, main: l.main, signal: sig, files: j.redirectedTo(r)}
	for stream := range q.answers {
		q.answers[stream].Program = l.program
	}
	r.query.Store(q)
	return q
}

// stackQuery is a request to one rank to print its stacks, on either stream. A limited amount of other output is
// held back meanwhile, so that the rank's last line stays the one before. Spawner threads and one other goroutine
// use it.
type stackQuery struct {
	job    *job
	rank   *rank
	main   process.Proc
	signal syscall.Signal
	files  []*logTail

	mu      sync.Mutex                           // guards all below
	answers [output.Stderr + 1]stacks.DumpFilter // by stream
	changed time.Time                            // when it was sent, or output came last
	held    [output.Stderr + 1][]byte            // other output
	flushed bool                                 // show output at once
}

// heldOutputLimit bounds held output per stream, in bytes.
const heldOutputLimit = 64 << 10

// output filters the answer out of a rank's output.
func (q *stackQuery) output(stream int, p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
	q.show(stream, q.answers[stream].Filter(p))
}

// show holds back or shows output that is not the answer. mu is held.
func (q *stackQuery) show(stream int, p []byte) {
	if !q.flushed && len(q.held[stream])+len(p) <= heldOutputLimit {
		q.held[stream] = append(q.held[stream], p...)
		return
	}
	for _, part := range [][]byte{q.held[stream], p} {
		if len(part) > 0 {
			q.job.forward(q.rank.row.Rank, stream, part)
		}
	}
	q.held[stream] = nil
}

// endStream ends the search for an answer in a stream.
func (q *stackQuery) endStream(stream int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	endStream := q.answers[stream].Flush()
	if q.inFile(stream) {
		return
	}
	q.show(stream, endStream)
}

// flush ends the query and shows all held output.
func (q *stackQuery) flush() {
	q.endStream(output.Stdout)
	q.endStream(output.Stderr)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushed = true
	q.show(output.Stdout, nil)
	q.show(output.Stderr, nil)
}

// inFile reports whether the rank writes a stream into a file itself.
func (q *stackQuery) inFile(stream int) bool {
	return slices.ContainsFunc(q.files, func(f *logTail) bool { return f.stream == stream })
}

// send sends the signal. Go prints the running goroutine only of the thread that gets it, so that must be a busy one;
// Python's faulthandler prints all threads.
func (q *stackQuery) send(program stacks.Program) {
	signal := q.main.Signal
	if program == stacks.Go {
		signal = q.main.SignalBusy
	}
	_ = signal(q.signal) // it may have exited
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
}

func (q *stackQuery) lastChange() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// await waits until every answer is complete, or no more seem to come.
func await(queried map[*inspection]*stackQuery) {
	tick := time.NewTicker(answerTick)
	defer tick.Stop()
	limit := time.Now().Add(stackTime)
	var last time.Time
	for open := len(queried); open > 0; {
		now := <-tick.C
		open = 0
		for _, q := range queried {
			q.readFiles()
			if !q.isSettled(now) {
				open++
			}
			if changed := q.lastChange(); changed.After(last) {
				last = changed
			}
		}
		if now.Sub(last) > answerTimeout || now.After(limit) {
			return
		}
	}
}

// isSettled reports whether no more output is expected. All output of a rank's own process precedes its exit; that
// of others may still be in flight.
func (q *stackQuery) isSettled(now time.Time) bool {
	own := q.main.PID == int(q.rank.pid.Load())
	gone := own && q.rank.end.Load() != nil || !own && !q.main.Alive()
	q.mu.Lock()
	defer q.mu.Unlock()
	begun := false
	for i := range q.answers {
		if q.answers[i].Complete() {
			return true
		}
		begun = begun || q.answers[i].Started()
	}
	return gone && own && len(q.files) == 0 || (gone || begun) && now.Sub(q.changed) > answerPause
}

func (q *stackQuery) stack() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.answers {
		if stack := q.answers[i].Stack(); len(stack) > 0 {
			return stack
		}
	}
	return nil
}

// logTail reads what a rank appends to a file that it writes itself.
type logTail struct {
	logs   *output.Logs
	name   string
	stream int
	offset int64
}

// redirectedTo returns the ends of the files that a rank writes itself.
func (j *job) redirectedTo(r *rank) (files []*logTail) {
	if j.logs == nil || r.row.Spawned {
		return nil
	}
	for _, stream := range []int{output.Stdout, output.Stderr} {
		if j.logs.Tee(r.row.LocalRank, stream) != nil {
			continue
		}
		if size, ok := j.logs.Size(r.row.LocalRank, stream); ok {
			files = append(files, &logTail{j.logs, j.logs.Path(r.row.LocalRank, stream), stream, size})
		}
	}
	return files
}

// readFiles searches the files for the answer.
func (q *stackQuery) readFiles() {
	for _, f := range q.files {
		text := f.readNew()
		if len(text) == 0 {
			continue
		}
		q.mu.Lock()
		q.changed = time.Now()
		_ = q.answers[f.stream].Filter(text) // other output stays in the file
		q.mu.Unlock()
	}
}

// maxTailRead bounds one read of a file, in bytes.
const maxTailRead = 1 << 20

// readNew returns what was appended to the file since the last call.
func (f *logTail) readNew() []byte {
	file, err := f.logs.OpenFile(f.name, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, _ := io.ReadAll(io.NewSectionReader(file, f.offset, maxTailRead))
	f.offset += int64(len(text))
	return text
}
