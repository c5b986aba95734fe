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

// Limits for clients that read output.
const (
	maxBacklog      = 4 << 20 // bytes; a client that is further behind is dropped
	maxLineBytes    = 64 << 10
	maxBatchLines   = 256                    // per message
	logPollInterval = 250 * time.Millisecond // for appended bytes
	logChunk        = 64 << 10               // bytes per read
	// bytes that are searched for a requested number of lines
	logTailBytes = 4 << 20
	defaultTail  = tailLines // lines of each stream
)

// logs sends the last output of ranks and, to a follower, what comes next. It never delays the job:
// a client that reads too slowly is dropped.
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
	_ = send(registry.Logs{Over: true}) // the client may be gone
}

// follow returns false if the client reads too slowly.
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

func (h *head) streamsOf(wants func(rank int) bool) (list []rankStream) {
	for _, r := range h.plan.Load().Ranks {
		if wants(r.Rank) {
			list = append(list, rankStream{r.Rank, output.Stdout}, rankStream{r.Rank, output.Stderr})
		}
	}
	return list
}

// sendTails sends the last lines of streams, or where they are if they are not available here. It
// returns open log files on this host; a file of several ranks counts as the first one's.
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

// logFile returns the file on this host with a stream's output, "" if the output passes through
// this process. elsewhere says where it is otherwise.
func (h *head) logFile(at rankStream) (name, elsewhere string) {
	p := h.plan.Load()
	r := p.Ranks[at.rank]
	n := h.nodes[r.Node]
	if h.stdio.Terminal {
		if at.stream == output.Stderr {
			return "", ""
		}
		return "", "writes to the terminal directly, so gorun keeps no output; " +
			"add --tee 3 or --label always to keep its last lines"
	}
	if l := p.LogsOf(r.Node); l != nil && l.Files() && !r.Spawned {
		name = h.logPlan(r.Node).File(l.Dir, r.LocalRank, at.stream)
		switch {
		case name == "" || h.logs != nil || n.served != nil:
			return name, ""
		case !l.Tee[r.LocalRank].Has(at.stream):
			return "", fmt.Sprintf("writes to %s on host %s", output.Plain([]byte(name)), n.name)
		}
	}
	if h.spec.IsTask() && n.joined && !h.stdio.Forward && at.stream == output.Stdout {
		return "", "is shown by its own gorun on host " + n.name
	}
	return "", ""
}

// logFiles are log files that are being followed.
type logFiles []*logFile

type logFile struct {
	rankStream
	name string
	file *os.File // nil: it does not exist yet
}

// switchTo replaces the files by those of another attempt. A file that keeps its name stays open.
func (files logFiles) switchTo(h *head) {
	for _, f := range files {
		name := ""
		if f.rank < len(h.plan.Load().Ranks) { // attempts may differ in their ranks
			name, _ = h.logFile(f.rankStream)
		}
		if name == "" || name == f.name {
			continue
		}
		if f.file != nil {
			_ = f.file.Close()
		}
		f.name, f.file = name, nil
	}
}

// tailLogFile sends a file's last lines; it returns nil if the file cannot be read.
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
		end, _ = io.ReadAll(io.NewSectionReader(f, from, size-from)) // as far as readable
	}
	_, _ = f.Seek(from+int64(len(end)), io.SeekStart)
	lines.writeTail(at, end, from > 0)
	return &logFile{at, name, f}
}

// read sends what has been appended.
func (files logFiles) read(lines *lineSender) {
	p := make([]byte, logChunk)
	for _, f := range files {
		if f.file == nil {
			f.file, _ = os.Open(f.name) // its rank may not have started yet
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
