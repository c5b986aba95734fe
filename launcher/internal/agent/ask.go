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
	answerTime  = 2 * time.Second        // how long it waits while no rank prints anything
	answerPause = 100 * time.Millisecond // after which an answer whose end cannot be told is over
	answerTick  = 10 * time.Millisecond
)

// ask has the ranks whose stacks are not known print where they are, by a signal
// that ends most of them, and takes their answers out of what goes to the user. What
// else they print meanwhile is shown when tell is called.
func (j *running) ask(list []*look) (tell func()) {
	asked := map[*look]*question{}
	for _, l := range list {
		if q := j.question(l); q != nil {
			asked[l] = q
		}
	}
	for l, q := range asked {
		q.send(l.program)
	}
	await(asked)
	for l, q := range asked {
		l.Stack = q.stack()
	}
	return func() {
		for _, q := range asked {
			q.tell()
		}
	}
}

// question prepares to hear a rank's answer; nil where none can be expected.
func (j *running) question(l *look) *question {
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
	q := &question{job: j, rank: r, main: l.main, signal: sig, files: j.redirectedTo(r)}
	for stream := range q.answers {
		q.answers[stream].Program = l.program
	}
	r.asked.Store(q)
	return q
}

// question is what one rank was asked. Its answer may come by either stream. What
// else it prints meanwhile is shown later, as far as it is not much: its last line
// shall be the one before.
type question struct {
	job    *running
	rank   *rank
	main   process.Proc
	signal syscall.Signal
	files  []*growing

	mu      sync.Mutex
	answers [output.Stderr + 1]stacks.DumpFilter // by stream
	changed time.Time                            // when it was asked, or something came
	later   [output.Stderr + 1][]byte            // what is shown later
	told    bool                                 // it is later
}

// laterLimit bounds what is shown later, in bytes of each stream.
const laterLimit = 64 << 10

// output takes the answer out of what the rank prints and shows the rest. It is called
// on the thread that reads the rank's streams.
func (q *question) output(stream int, p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
	q.show(stream, q.answers[stream].Filter(p))
}

// show shows what is no answer. The lock is held.
func (q *question) show(stream int, p []byte) {
	if !q.told && len(q.later[stream])+len(p) <= laterLimit {
		q.later[stream] = append(q.later[stream], p...)
		return
	}
	for _, part := range [][]byte{q.later[stream], p} {
		if len(part) > 0 {
			q.job.pass(q.rank.row.Rank, stream, part)
		}
	}
	q.later[stream] = nil
}

// rest ends a stream's search, and with it what is shown later.
func (q *question) rest(stream int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := q.answers[stream].Flush()
	if q.inFile(stream) {
		return
	}
	q.show(stream, rest)
}

// tell ends the question: all is shown, and from now on at once.
func (q *question) tell() {
	q.rest(output.Stdout)
	q.rest(output.Stderr)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.told = true
	q.show(output.Stdout, nil)
	q.show(output.Stderr, nil)
}

// inFile reports whether a stream goes past us.
func (q *question) inFile(stream int) bool {
	return slices.ContainsFunc(q.files, func(f *growing) bool { return f.stream == stream })
}

// send asks. Go shows where a goroutine runs only on the thread that runs it, Python's
// faulthandler all threads, and the one that was asked by itself: the main one unless
// told otherwise.
func (q *question) send(program stacks.Program) {
	signal := q.main.Signal
	if program == stacks.Go {
		signal = q.main.SignalBusy
	}
	_ = signal(q.signal) // it may have ended meanwhile
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = time.Now()
}

func (q *question) lastChange() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// await waits until every answer is there, or none of the missing ones seems to come.
func await(asked map[*look]*question) {
	tick := time.NewTicker(answerTick)
	defer tick.Stop()
	limit := time.Now().Add(stackTime)
	var last time.Time
	for open := len(asked); open > 0; {
		now := <-tick.C
		open = 0
		for _, q := range asked {
			q.readFiles()
			if !q.settled(now) {
				open++
			}
			if changed := q.lastChange(); changed.After(last) {
				last = changed
			}
		}
		if now.Sub(last) > answerTime || now.After(limit) {
			return
		}
	}
}

// settled reports whether nothing more is to be expected. What a rank's own process
// printed is here before its end is known, what others printed may be still on its way.
func (q *question) settled(now time.Time) bool {
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

func (q *question) stack() []string {
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
type growing struct {
	logs   *output.Logs
	name   string
	stream int
	offset int64
}

// redirectedTo are the files that a rank's streams go to past us, as far as they have
// grown.
func (j *running) redirectedTo(r *rank) (files []*growing) {
	if j.logs == nil {
		return nil
	}
	for _, stream := range []int{output.Stdout, output.Stderr} {
		if j.logs.Tee(r.row.LocalRank, stream) != nil {
			continue
		}
		if size, ok := j.logs.Size(r.row.LocalRank, stream); ok {
			files = append(files, &growing{j.logs, j.logs.Path(r.row.LocalRank, stream), stream, size})
		}
	}
	return files
}

// readFiles looks for the answer in them.
func (q *question) readFiles() {
	for _, f := range q.files {
		text := f.more()
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
const growth = 1 << 20

// more is what was written to the file since the last look.
func (f *growing) more() []byte {
	file, err := f.logs.OpenFile(f.name, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, _ := io.ReadAll(io.NewSectionReader(file, f.offset, growth)) // what could be read
	f.offset += int64(len(text))
	return text
}
