package output

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"gorun/internal/printable"
)

// DiskTimeout limits a write to a log file. After it the disk, usually of a network file system, is abandoned for the
// rest of the attempt: ranks go on without logs.
const DiskTimeout = 10 * time.Second

// Logs are the log files of a node's ranks in one attempt.
//
// One goroutine writes all files. Tees never block: their bytes wait in memory, and their credit comes back once they
// are written. So a disk that is slower than the ranks slows them down, as a slow reader of stdout does, if the caller
// reads a rank's stream only with credit from both. A disk that fails or hangs costs the logs alone.
type Logs struct {
	plan    LogPlan
	attempt string // its directory; "" if none exists
	tees    map[teeKey]*tee
	shared  [2]*logFile // filtered_stdout.log, filtered_stderr.log; nil without filters
	disk    *disk
}

// teeKey identifies a tee'd stream.
type teeKey struct {
	localRank, stream int
}

// OpenLogs makes the directories and opens the files of tee'd streams. After an error nothing is open, and a run's
// directory that this call made is removed.
func OpenLogs(plan LogPlan) (*Logs, error) {
	l := &Logs{plan: plan}
	if !plan.Enabled() {
		return l, nil
	}
	l.disk = newDisk(plan)
	if err := l.open(); err != nil {
		l.disk.closeFiles()
		return nil, err
	}
	return l, nil
}

func (l *Logs) open() (err error) {
	if l.plan.named() {
		if err := l.plan.makeNamed(); err != nil {
			return err
		}
		return l.openTees()
	}
	if l.plan.Attempt == 0 {
		if err := l.plan.makeRunDir(); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = l.plan.logRoot().removeAll(l.plan.RunDir) // the first error says more
			}
		}()
	}
	l.attempt = filepath.Join(l.plan.RunDir, "attempt_"+strconv.Itoa(l.plan.Attempt))
	return l.openFiles()
}

// openFiles makes the attempt's directories and opens the files that the node writes.
func (l *Logs) openFiles() error {
	if err := l.plan.makeRankDirs(l.attempt); err != nil {
		return err
	}
	filters := [2][]string{l.plan.StdoutFilters, l.plan.StderrFilters}
	for i, name := range []string{"filtered_stdout.log", "filtered_stderr.log"} {
		if len(filters[i]) == 0 {
			continue
		}
		var err error
		if l.shared[i], err = l.disk.open(filepath.Join(l.attempt, name)); err != nil {
			return err
		}
	}
	return l.openTees()
}

func (l *Logs) openTees() error {
	l.tees = make(map[teeKey]*tee)
	for _, r := range l.plan.Ranks {
		for _, stream := range []int{Stdout, Stderr} {
			if !l.plan.Tee.Of(r.LocalRank).Has(stream) || l.Path(r.LocalRank, stream) == "" {
				continue
			}
			if err := l.openTee(r, stream); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Logs) openTee(r RankInfo, stream int) error {
	file, err := l.disk.open(l.Path(r.LocalRank, stream))
	if err != nil {
		return err
	}
	file.owner = credit{rank: r.Rank, stream: stream}
	t := &tee{disk: l.disk, file: file}
	if i := streamIndex(stream); l.shared[i] != nil && (l.plan.Show == nil || l.plan.Show(r)) {
		filters := [2][]string{l.plan.StdoutFilters, l.plan.StderrFilters}[i]
		t.filter = newLineFilter(l.shared[i], filters, torchrunTag(r, l.plan.Template))
	}
	l.tees[teeKey{r.LocalRank, stream}] = t
	return nil
}

// Files reports whether there are any.
func (l *Logs) Files() bool { return l.attempt != "" || l.plan.named() }

// ErrorFile returns the path for TORCHELASTIC_ERROR_FILE, which the rank makes; "" without files.
func (l *Logs) ErrorFile(localRank int) string {
	if l.attempt == "" {
		return ""
	}
	return filepath.Join(l.attempt, strconv.Itoa(localRank), "error.json")
}

// Path returns the path of a stream's log file; "" if it has none.
func (l *Logs) Path(localRank, stream int) string {
	if !l.Files() {
		return ""
	}
	return l.plan.File(l.attempt, localRank, stream)
}

// OpenFile opens a file that Path or ErrorFile names.
func (l *Logs) OpenFile(path string, flags int) (*os.File, error) {
	return l.plan.logRoot().open(path, flags)
}

// Size returns the size of a stream's log file; false without one.
func (l *Logs) Size(localRank, stream int) (int64, bool) {
	path := l.Path(localRank, stream)
	if path == "" {
		return 0, false
	}
	info, err := l.plan.logRoot().stat(path)
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}

// Redirect opens the file that a rank has as its stream. It returns nil for a stream that passes through the node, as
// all do if the log directory is the null device (torchrun then prints them, without a tag). The caller passes the
// file to the rank and closes it.
func (l *Logs) Redirect(localRank, stream int) (*os.File, error) {
	if l.attempt == "" && !l.plan.named() || !l.plan.Redirects.Of(localRank).Has(stream) ||
		l.plan.Tee.Of(localRank).Has(stream) {
		return nil, nil
	}
	return openLog(l.plan.logRoot(), l.Path(localRank, stream))
}

// Tee returns the writer of a tee'd stream, nil for any other. Its Write never blocks, never fails and keeps nothing
// of p; Close ends the stream. Call both from one goroutine at a time.
func (l *Logs) Tee(localRank, stream int) io.WriteCloser {
	if t := l.tees[teeKey{localRank, stream}]; t != nil {
		return t
	}
	return nil
}

// Last returns the last n lines, as Console.Tail, of a stream that a rank wrote directly to its file: of stderr, or of
// stdout if stderr has none.
func (l *Logs) Last(localRank, n int) []string {
	for _, stream := range []int{Stderr, Stdout} {
		if !l.plan.Redirects.Of(localRank).Has(stream) || l.plan.Tee.Of(localRank).Has(stream) {
			continue
		}
		if lines := l.lastLines(l.Path(localRank, stream), n); len(lines) > 0 {
			return lines
		}
	}
	return nil
}

// lastLines reads as much of the end of a file as is kept of a stream. A file that cannot be read has no lines.
func (l *Logs) lastLines(path string, n int) []string {
	f, err := l.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from := max(0, size-stderrTail)
	text, err := io.ReadAll(io.NewSectionReader(f, from, stderrTail))
	if err != nil {
		return nil
	}
	t := tail{truncated: from > 0}
	t.add(text, stderrTail)
	return t.lines(n)
}

// Close ends all tees and waits until their bytes are written or dropped. Its error names incomplete files with their
// cause, or is the context's.
func (l *Logs) Close(ctx context.Context) error {
	if l.disk == nil {
		return nil
	}
	for _, t := range l.tees {
		_ = t.Close() // never fails
	}
	return l.disk.close(ctx)
}

// openLog opens a log file to append to, with mode 0666 less the umask, as torchrun does.
func openLog(root logRoot, path string) (*os.File, error) {
	file, err := root.open(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w; give --log-dir a writable directory", printable.Text(path),
			printable.Cause(err))
	}
	return file, nil
}

// tee is one tee'd stream.
type tee struct {
	disk   *disk
	file   *logFile
	filter *lineFilter // nil: none
	once   sync.Once
}

func (t *tee) Write(p []byte) (int, error) {
	t.disk.add(t.file, p, len(p))
	if t.filter != nil {
		t.disk.add(t.filter.file, t.filter.feed(p), 0)
	}
	return len(p), nil
}

func (t *tee) Close() error {
	t.once.Do(func() {
		if t.filter != nil {
			t.disk.add(t.filter.file, t.filter.rest(), 0)
		}
		t.disk.finish(t.file)
	})
	return nil
}
