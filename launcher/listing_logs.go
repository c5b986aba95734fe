package launcher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"gorun/launcher/internal/output"
	"gorun/launcher/registry"
)

// Limits of those who read what ranks print.
const (
	maxBacklog      = 4 << 20                // bytes that one may be behind before he is dropped
	maxLineBytes    = 64 << 10               // bytes of a line
	maxBatchLines   = 256                    // lines at once
	logPollInterval = 250 * time.Millisecond // how often it is looked whether a log file has grown
	logChunk        = 64 << 10               // bytes that are read of one at once
	// bytes in which the last lines of one are looked for, where somebody says how many
	logTailBytes = 4 << 20
	defaultTail  = tailLines // the last lines of each stream
)

// taps are those who follow what ranks print. Without any, a write costs a look.
type followers struct {
	count atomic.Int32
	mu    sync.RWMutex
	list  map[*follower]bool
}

// write hands bytes of a rank to those who follow. It never waits for them.
func (t *followers) write(rank, stream int, p []byte) {
	t.each(func(f *follower) { f.write(rank, stream, p) })
}

func (t *followers) each(do func(*follower)) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for f := range t.list {
		do(f)
	}
}

// add adds one who follows until remove is called.
func (t *followers) add(f *follower) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[*follower]bool{}
	}
	t.list[f] = true
	t.count.Add(1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.list, f)
		t.count.Add(-1)
	}
}

// channel is a stream of a rank.
type rankStream struct{ rank, stream int }

// newAttempt stands for all of them in a piece without bytes.
var attemptMark = rankStream{-1, -1}

type piece struct {
	rankStream
	bytes []byte
}

// follower collects what ranks print for one who reads it in his own time.
type follower struct {
	wants func(rank int) bool
	wake  chan struct{} // has one place

	mu       sync.Mutex
	excluded map[rankStream]bool // whose bytes come from elsewhere, or not yet
	pieces   []piece
	size     int
	overflow bool
}

// take keeps bytes for the reader, unless he is too far behind.
func (f *follower) write(rank, stream int, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := rankStream{rank, stream}
	if f.overflow || f.excluded[at] || !f.wants(rank) {
		return
	}
	last := len(f.pieces) - 1
	switch f.size += len(p); {
	case f.size > maxBacklog:
		f.overflow, f.pieces = true, nil
	case last >= 0 && f.pieces[last].rankStream == at: // ranks may write byte by byte
		f.pieces[last].bytes = append(f.pieces[last].bytes, p...)
	default:
		f.pieces = append(f.pieces, piece{at, bytes.Clone(p)})
	}
	f.wakeReader()
}

// rouse wakes the reader.
func (f *follower) wakeReader() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// turn marks that another attempt begins: what was left unfinished stays so.
func (f *follower) startAttempt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.overflow {
		f.pieces = append(f.pieces, piece{rankStream: attemptMark})
	}
	f.wakeReader()
}

// next is what has come since the last call.
func (f *follower) drain() (pieces []piece, overflow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pieces, f.pieces, f.size = f.pieces, nil, 0
	return pieces, f.overflow
}

// begin takes a stream from its last bytes on.
func (f *follower) startStream(c *output.Console, at rankStream) (last []byte, truncated bool) {
	c.Recent(at.rank, at.stream, func(end []byte, more bool) {
		last, truncated = bytes.Clone(end), more
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.excluded, at)
	})
	return last, truncated
}

// liner makes lines of what streams print, and sends them.
type lineSender struct {
	send    func(part any) error
	partial map[rankStream][]byte // unfinished lines
	tail    *int                  // how many last lines are wished
	batch   []registry.Line
	err     error
}

// add takes bytes of a stream.
func (l *lineSender) write(at rankStream, p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		held := append(l.partial[at], line...)
		p = rest
		for len(held) > maxLineBytes {
			whole := wholeRunes(held[:maxLineBytes])
			l.putLine(at, held[:whole])
			held = held[whole:]
		}
		if ended {
			l.putLine(at, held)
			held = held[:0]
		}
		l.partial[at] = held
	}
}

// wholeRunes is how many bytes of a text end with a whole character, as far as it has such.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && len(text)-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// put sends a line before long. What a carriage return overwrote was never meant to stay.
func (l *lineSender) putLine(at rankStream, line []byte) {
	line = bytes.TrimRight(line, "\r")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	l.emit(at, output.Plain(line))
}

func (l *lineSender) emit(at rankStream, text string) {
	l.batch = append(l.batch, registry.Line{Rank: at.rank, Stream: at.stream, Text: text})
	if len(l.batch) >= maxBatchLines {
		l.flush()
	}
}

// flush sends what there is.
func (l *lineSender) flush() {
	if len(l.batch) > 0 && l.err == nil {
		l.err = l.send(registry.Logs{Lines: l.batch})
	}
	l.batch = nil
}

// last sends the last lines of a stream, and keeps its unfinished one.
func (l *lineSender) writeTail(at rankStream, end []byte, truncated bool) {
	lines := bytes.SplitAfter(end, []byte{'\n'})
	most := defaultTail + 1 // behind the last line's end there is nothing
	if l.tail != nil {
		if most = *l.tail; len(lines[len(lines)-1]) == 0 {
			most++
		}
	}
	if len(lines) > most {
		lines, truncated = lines[len(lines)-most:], false
	}
	if truncated && len(lines) > 0 {
		first := lines[0]
		for range min(len(first), utf8.UTFMax-1) { // the rest of a character that was cut
			if utf8.RuneStart(first[0]) {
				break
			}
			first = first[1:]
		}
		lines[0] = append([]byte("..."), first...)
	}
	for _, line := range lines {
		l.write(at, line)
	}
}

// end sends a stream's unfinished line.
func (l *lineSender) endStream(at rankStream) {
	if held := l.partial[at]; len(held) > 0 {
		l.putLine(at, held)
	}
	delete(l.partial, at)
}

// rest sends all unfinished lines.
func (l *lineSender) flushAll() {
	for at := range l.partial {
		l.endStream(at)
	}
	l.flush()
}

// logs sends what ranks printed last and, to one who follows, what they print from now
// on. It never holds up the job: who reads too slowly is dropped.
func (l *monitor) logs(ctx context.Context, h *head, q registry.Request, send func(part any) error) {
	lines := &lineSender{send: send, partial: map[rankStream][]byte{}, tail: q.Tail}
	f := &follower{wants: func(rank int) bool {
		return q.Rank == nil || *q.Rank == rank
	}, wake: make(chan struct{}, 1), excluded: map[rankStream]bool{}}
	channels := h.streamsOf(f.wants)
	if len(channels) == 0 {
		_ = send(registry.Logs{Over: true, Error: fmt.Sprintf("the job has no rank %d", *q.Rank)})
		return
	}
	for _, at := range channels {
		f.excluded[at] = true
	}
	if q.Follow {
		defer l.followers.add(f)()
	}
	files := h.sendTails(channels, f, lines)
	defer files.close()
	lines.flush()
	if q.Follow && lines.err == nil && !l.follow(ctx, f, files, lines) {
		_ = send(registry.Logs{Dropped: true})
		return
	}
	lines.flushAll()
	_ = send(registry.Logs{Over: true}) // who has gone hears nothing
}

// goOn sends what comes; false: the reader is too slow.
func (l *monitor) follow(ctx context.Context, f *follower, files logFiles, lines *lineSender) bool {
	var grown <-chan time.Time
	if len(files) > 0 {
		tick := time.NewTicker(logPollInterval)
		defer tick.Stop()
		grown = tick.C
	}
	for over := false; !over && lines.err == nil; {
		select {
		case <-f.wake:
		case <-grown:
			files.read(lines)
		case <-ctx.Done():
			files.read(lines)
			over = true
		}
		pieces, overflow := f.drain()
		if overflow {
			return false
		}
		for _, p := range pieces {
			if p.rankStream == attemptMark {
				files.read(lines)
				lines.flushAll()
				files.switchTo(l.head.Load())
				continue
			}
			lines.write(p.rankStream, p.bytes)
		}
		lines.flush()
	}
	return true
}

// channels are the streams of ranks.
func (h *head) streamsOf(wants func(rank int) bool) (list []rankStream) {
	for _, r := range h.plan.Load().Ranks {
		if wants(r.Rank) {
			list = append(list, rankStream{r.Rank, output.Stdout}, rankStream{r.Rank, output.Stderr})
		}
	}
	return list
}

// lastOf sends the last lines of streams, and says where those are that cannot be had
// here. Log files on this host it returns open, to be read on; one that several ranks
// share counts as the first one's.
func (h *head) sendTails(channels []rankStream, f *follower, lines *lineSender) (files logFiles) {
	shown := map[string]bool{}
	for _, at := range channels {
		name, elsewhere := h.logFile(at)
		switch {
		case elsewhere != "":
			lines.emit(rankStream{rank: at.rank}, elsewhere)
		case name == "":
			last, truncated := f.startStream(h.console, at)
			lines.writeTail(at, last, truncated)
		case !shown[name]:
			shown[name] = true
			if file := tailLogFile(at, name, lines); file != nil {
				files = append(files, file)
			}
		}
	}
	return files
}

// logFile is the file on this host that has what a stream prints; "": it passes
// through here. elsewhere says where it is if neither is so.
func (h *head) logFile(at rankStream) (name, elsewhere string) {
	p := h.plan.Load()
	r := p.Ranks[at.rank]
	n := h.nodes[r.Node]
	if h.stdio.Terminal {
		if at.stream == output.Stderr {
			return "", ""
		}
		return "", "writes to the terminal itself, and nothing of it is kept; --tee 3 or --label always keeps its last lines"
	}
	if l := p.LogsOf(r.Node); l != nil && l.Files() && !r.Spawned {
		plan, err := h.logPlan(n)
		if err != nil {
			return "", ""
		}
		name = plan.File(l.Dir, r.LocalRank, at.stream)
		switch {
		case name == "" || h.logs != nil || n.served != nil:
			return name, ""
		case !l.Tee[r.LocalRank].Has(at.stream):
			return "", fmt.Sprintf("prints into %s on host %s", output.Plain([]byte(name)), n.name)
		}
	}
	if h.spec.IsTask() && n.joined && !h.stdio.Forward && at.stream == output.Stdout {
		return "", "prints by a gorun of its own on host " + n.name
	}
	return "", ""
}

// logFiles are log files that are read on.
type logFiles []*logFile

type logFile struct {
	rankStream
	name string
	file *os.File // nil: there is none yet
}

// turnTo has the files of another attempt take the place of those there are. One that keeps its name is read on.
func (files logFiles) switchTo(h *head) {
	for _, f := range files {
		name, _ := h.logFile(f.rankStream)
		if name == "" || name == f.name {
			continue
		}
		if f.file != nil {
			_ = f.file.Close()
		}
		f.name, f.file = name, nil
	}
}

// openLogFile sends a file's last lines; nil where it cannot be read.
func tailLogFile(at rankStream, name string, lines *lineSender) *logFile {
	f, err := os.Open(name)
	if err != nil {
		lines.emit(rankStream{rank: at.rank}, output.Plain([]byte(err.Error())))
		return nil
	}
	var end []byte
	size, err := f.Seek(0, io.SeekEnd)
	from := max(0, size-logChunk)
	if lines.tail != nil {
		from = max(0, size-logTailBytes)
	}
	if err == nil {
		end, _ = io.ReadAll(io.NewSectionReader(f, from, size-from)) // what could be read
	}
	_, _ = f.Seek(from+int64(len(end)), io.SeekStart)
	lines.writeTail(at, end, from > 0)
	return &logFile{at, name, f}
}

// read sends what has come to the files.
func (files logFiles) read(lines *lineSender) {
	p := make([]byte, logChunk)
	for _, f := range files {
		if f.file == nil {
			f.file, _ = os.Open(f.name) // its rank may not have begun yet
		}
		for f.file != nil && lines.err == nil {
			n, err := f.file.Read(p)
			lines.write(f.rankStream, p[:n])
			lines.flush()
			if err != nil || n == 0 {
				break
			}
		}
	}
}

func (files logFiles) close() {
	for _, f := range files {
		if f.file != nil {
			_ = f.file.Close()
		}
	}
}
