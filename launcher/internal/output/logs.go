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

// DiskPatience is how long a write to a log file may take. After that the disk (a network's, as a rule) is given up for
// the rest of the attempt: ranks go on without logs.
const DiskPatience = 10 * time.Second

// Logs are the log files of a node's ranks in one attempt.
//
// One goroutine writes all files. Tees never block: what they are given waits in memory, and its credit comes back when
// it has been written. A disk that is slower than the ranks so slows the ranks, as a slow reader of stdout does, if the
// caller reads a rank's stream only while it has credit from both. A disk that fails or hangs costs the log alone.
type Logs struct {
	plan    LogPlan
	attempt string // its directory; empty where there is none
	tees    map[teeKey]*tee
	shared  [2]*logFile // filtered_stdout.log, filtered_stderr.log; nil without filters
	disk    *disk
}

// teeKey names a tee'd stream.
type teeKey struct {
	localRank, stream int
}

// OpenLogs makes the directories and opens the files of tee'd streams. A plan that wants no files gives Logs without
// any. After an error nothing is open, and a run's directory that this call made is gone.
func OpenLogs(plan LogPlan) (*Logs, error) {
	l := &Logs{plan: plan}
	if !plan.Wanted() {
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
				_ = l.plan.place().removeAll(l.plan.RunDir) // the error at hand says more
			}
		}()
	}
	l.attempt = filepath.Join(l.plan.RunDir, "attempt_"+strconv.Itoa(l.plan.Attempt))
	return l.openFiles()
}

// openFiles makes the attempt's directories and opens the files that the node itself writes.
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

// Files tells whether there are any.
func (l *Logs) Files() bool { return l.attempt != "" || l.plan.named() }

// ErrorFile returns the path for TORCHELASTIC_ERROR_FILE; empty when there are no files. The rank makes it.
func (l *Logs) ErrorFile(localRank int) string {
	if l.attempt == "" {
		return ""
	}
	return filepath.Join(l.attempt, strconv.Itoa(localRank), "error.json")
}

// Path returns the path of a stream's log file; empty when the stream has none.
func (l *Logs) Path(localRank, stream int) string {
	if !l.Files() {
		return ""
	}
	return l.plan.File(l.attempt, localRank, stream)
}

// OpenFile opens a file that Path or ErrorFile names.
func (l *Logs) OpenFile(path string, flags int) (*os.File, error) {
	return l.plan.place().open(path, flags)
}

// Size returns how long a stream's log file is now; false without one.
func (l *Logs) Size(localRank, stream int) (int64, bool) {
	path := l.Path(localRank, stream)
	if path == "" {
		return 0, false
	}
	info, err := l.plan.place().stat(path)
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}

// Redirect opens the file that a rank shall have as its stream. It is nil for a stream that passes through the node, as
// all do when the log directory is the null device (torchrun then prints them, without a tag). The caller hands the
// file to the rank and closes it then, so that the node needs no descriptor for it.
func (l *Logs) Redirect(localRank, stream int) (*os.File, error) {
	if l.attempt == "" && !l.plan.named() || !l.plan.Redirects.Of(localRank).Has(stream) ||
		l.plan.Tee.Of(localRank).Has(stream) {
		return nil, nil
	}
	return openLog(l.plan.place(), l.Path(localRank, stream))
}

// Tee returns the writer of a tee'd stream, nil for any other. Its Write never blocks, never fails and keeps nothing of
// p; Close tells that the stream is at its end of file. Both must come from one goroutine at a time.
func (l *Logs) Tee(localRank, stream int) io.WriteCloser {
	if t := l.tees[teeKey{localRank, stream}]; t != nil {
		return t
	}
	return nil
}

// Last returns the last n lines, as Console.Tail does, of a stream that a rank wrote straight into its file: of stderr,
// or of stdout where stderr has none. Without such a file there are none.
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

// lastLines reads the end of a file, as much as is kept of a stream. What cannot be read has none.
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

// Close ends all tees and waits until their bytes are written or dropped. Its error tells which files are incomplete
// and why, or that the context ended first.
func (l *Logs) Close(ctx context.Context) error {
	if l.disk == nil {
		return nil
	}
	for _, t := range l.tees {
		_ = t.Close() // never fails
	}
	return l.disk.close(ctx)
}

// openLog opens a log file to append to. What the umask leaves of 0666 is its mode, as for torchrun.
func openLog(in place, path string) (*os.File, error) {
	file, err := in.open(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w; --log-dir takes a directory that can be written to", printable.Text(path),
			cause(err))
	}
	return file, nil
}

// tee is one tee'd stream.
type tee struct {
	disk   *disk
	file   *logFile
	filter *lineFilter // nil without filters
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
