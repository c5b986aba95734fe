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

// Limits of the time in which ranks answer.
const (
	answerTimeout = 2 * time.Second        // how long it waits while no rank prints anything
	answerPause   = 100 * time.Millisecond // after which an answer whose end cannot be told is over
	answerTick    = 10 * time.Millisecond
)

// ask has the ranks whose stacks are not known print where they are, by a signal
// that ends most of them, and takes their answers out of what goes to the user. What
// else they print meanwhile is shown when tell is called.
func (j *job) queryStacks(list []*inspection) (flush func()) {
	queried := map[*inspection]*stackQuery{}
	for _, l := range list {
		if q := j.stackQuery(l); q != nil {
			queried[l] = q
		}
	}
	for l, q := range queried {
		q.send(l.program)
	}
	await(queried)
	for l, q := range queried {
		l.Stack = q.stack()
	}
	return func() {
		for _, q := range queried {
			q.flush()
		}
	}
}

// question prepares to hear a rank's answer; nil where none can be expected.
func (j *job) stackQuery(l *inspection) *stackQuery {
	if l.main.PID == 0 || len(l.Stack) > 0 {
		return nil
	}
	sig, ok := stacks.DumpSignal(l.main.PID, l.program)
	if !ok {
		return nil
	}
	if err := l.main.PreventCore(); sig == syscall.SIGABRT && err != nil {
		return nil
	}
	r := j.rank(l.Rank)
	q := &stackQuery{job: j, rank: r, main: l.main, signal: sig, files: j.redirectedTo(r)}
	for stream := range q.answers {
		q.answers[stream].Program = l.program
	}
	r.query.Store(q)
	return q
}

// question is what one rank was asked. Its answer may come by either stream. What
// else it prints meanwhile is shown later, as far as it is not much: its last line
// shall be the one before.
type stackQuery struct {
	job    *job
	rank   *rank
	main   process.Proc
	signal syscall.Signal
	files  []*logTail

	mu      sync.Mutex
	answers [output.Stderr + 1]stacks.DumpFilter // by stream
	changed time.Time                            // when it was asked, or something came
	held    [output.Stderr + 1][]byte            // what is shown later
	flushed bool                                 // it is later
}

// laterLimit bounds what is shown later, in bytes of each stream.
const heldOutputLimit = 64 << 10

// output takes the answer out of what the rank prints and shows the rest. It is called
// on the thread that reads the rank's streams.
func (q *stackQuery) output(stream int, p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
	q.show(stream, q.answers[stream].Filter(p))
}

// show shows what is no answer. The lock is held.
func (q *stackQuery) show(stream int, p []byte) {
	if !q.flushed && len(q.held[stream])+len(p) <= heldOutputLimit {
		q.held[stream] = append(q.held[stream], p...)
		return
	}
	for _, part := range [][]byte{q.held[stream], p} {
		if len(part) > 0 {
			q.job.pass(q.rank.row.Rank, stream, part)
		}
	}
	q.held[stream] = nil
}

// rest ends a stream's search, and with it what is shown later.
func (q *stackQuery) endStream(stream int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	endStream := q.answers[stream].Flush()
	if q.inFile(stream) {
		return
	}
	q.show(stream, endStream)
}

// tell ends the question: all is shown, and from now on at once.
func (q *stackQuery) flush() {
	q.endStream(output.Stdout)
	q.endStream(output.Stderr)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushed = true
	q.show(output.Stdout, nil)
	q.show(output.Stderr, nil)
}

// inFile reports whether a stream goes past us.
func (q *stackQuery) inFile(stream int) bool {
	return slices.ContainsFunc(q.files, func(f *logTail) bool { return f.stream == stream })
}

// send asks. Go shows where a goroutine runs only on the thread that runs it, Python's
// faulthandler all threads, and the one that was asked by itself: the main one unless
// told otherwise.
func (q *stackQuery) send(program stacks.Program) {
	signal := q.main.Signal
	if program == stacks.Go {
		signal = q.main.SignalBusy
	}
	_ = signal(q.signal) // it may have ended meanwhile
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
}

func (q *stackQuery) lastChange() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// await waits until every answer is there, or none of the missing ones seems to come.
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

// settled reports whether nothing more is to be expected. What a rank's own process
// printed is here before its end is known, what others printed may be still on its way.
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

// growing is a file that a rank writes itself.
type logTail struct {
	logs   *output.Logs
	name   string
	stream int
	offset int64
}

// redirectedTo are the files that a rank's streams go to past us, as far as they have
// grown.
func (j *job) redirectedTo(r *rank) (files []*logTail) {
	if j.logs == nil {
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

// readFiles looks for the answer in them.
func (q *stackQuery) readFiles() {
	for _, f := range q.files {
		text := f.readNew()
		if len(text) == 0 {
			continue
		}
		q.mu.Lock()
		q.changed = time.Now()
		_ = q.answers[f.stream].Filter(text) // the rest is where the user wants it
		q.mu.Unlock()
	}
}

// growth bounds what is read of a file at once, in bytes.
const maxTailRead = 1 << 20

// more is what was written to the file since the last look.
func (f *logTail) readNew() []byte {
	file, err := f.logs.OpenFile(f.name, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, _ := io.ReadAll(io.NewSectionReader(file, f.offset, maxTailRead)) // what could be read
	f.offset += int64(len(text))
	return text
}
