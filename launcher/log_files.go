package launcher

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

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
		name = h.logPlan(n).File(l.Dir, r.LocalRank, at.stream)
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
