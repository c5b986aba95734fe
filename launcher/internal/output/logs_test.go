package output

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// tree returns the relative paths of all files and directories below dir. Directories end in a slash.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		if d.IsDir() {
			name += "/"
		}
		names = append(names, name)
		return err
	}))
	return names[1:] // without dir itself
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// feed writes text to a tee and closes it.
func feed(t *testing.T, l *Logs, localRank, stream int, text string) {
	t.Helper()
	w := l.Tee(localRank, stream)
	require.NotNil(t, w)
	n, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "a second time")
	_, err = w.Write([]byte("too late"))
	require.NoError(t, err)
}

func TestLogLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet there")
	l, err := OpenLogs(LogPlan{
		RunDir: dir, Ranks: ranks(3),
		Redirects: StreamMap{3, 1}, Tee: StreamMap{0, 2, 3},
		StdoutFilters: []string{"loss"},
	})
	require.NoError(t, err)

	file, err := l.Redirect(0, Stderr)
	require.NoError(t, err)
	_, err = file.WriteString("by the rank itself\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	feed(t, l, 1, Stderr, "tee'd\n")
	require.NoError(t, l.Close(t.Context()))

	assert.Equal(t, []string{
		"attempt_0/", "attempt_0/0/", "attempt_0/0/stderr.log", "attempt_0/1/", "attempt_0/1/stderr.log",
		"attempt_0/2/", "attempt_0/2/stderr.log", "attempt_0/2/stdout.log", "attempt_0/filtered_stdout.log",
	}, tree(t, dir))
	assert.Equal(t, "by the rank itself\n", read(t, l.Path(0, Stderr)))
	assert.Equal(t, "tee'd\n", read(t, l.Path(1, Stderr)))
	assert.Equal(t, filepath.Join(dir, "attempt_0", "2", "error.json"), l.ErrorFile(2))
	assert.Equal(t, filepath.Join(dir, "attempt_0", "1", "stdout.log"), l.Path(1, Stdout))
}

func TestWhichStreamsAreLogged(t *testing.T) {
	l, err := OpenLogs(LogPlan{
		RunDir: t.TempDir() + "/run", Ranks: ranks(3), Redirects: StreamMap{0, 3, 1}, Tee: StreamMap{0, 1},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(t.Context())) }()
	for _, tt := range []struct {
		local, stream   int
		redirected, tee bool
	}{
		{0, Stdout, false, false},
		{0, Stderr, false, false},
		{1, Stdout, false, true},
		{1, Stderr, true, false}, // both options: tee
		{2, Stdout, true, false},
		{2, Stderr, false, false},
	} {
		file, err := l.Redirect(tt.local, tt.stream)
		require.NoError(t, err)
		assert.Equal(t, tt.redirected, file != nil, "%+v", tt)
		if file != nil {
			require.NoError(t, file.Close())
		}
		assert.Equal(t, tt.tee, l.Tee(tt.local, tt.stream) != nil, "%+v", tt)
		assert.Equal(t, tt.redirected || tt.tee, l.Path(tt.local, tt.stream) != "", "%+v", tt)
	}
}

func TestAttemptsShareTheRunDirectory(t *testing.T) {
	plan := LogPlan{RunDir: t.TempDir() + "/run", Ranks: ranks(1), Tee: StreamMap{1}}
	first, err := OpenLogs(plan)
	require.NoError(t, err)
	require.NoError(t, first.Close(t.Context()))
	plan.Attempt = 1
	second, err := OpenLogs(plan)
	require.NoError(t, err)
	require.NoError(t, second.Close(t.Context()))
	assert.Equal(t, []string{
		"attempt_0/", "attempt_0/0/", "attempt_0/0/stdout.log", "attempt_1/", "attempt_1/0/",
		"attempt_1/0/stdout.log",
	},
		tree(t, plan.RunDir))
	_, err = OpenLogs(plan)
	assert.ErrorContains(t, err, "attempt_1: file exists", "an attempt's files are never overwritten")
	assert.DirExists(t, plan.RunDir)
}

func TestLogsArePrivate(t *testing.T) {
	run := t.TempDir() + "/run"
	l, err := OpenLogs(LogPlan{RunDir: run, Ranks: ranks(1), Redirects: StreamMap{3, 3, 3, 3}})
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	info, err := os.Stat(run)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

func TestNoFilesUnlessAsked(t *testing.T) {
	all := StreamMap{3, 3, 3, 3}
	for name, plan := range map[string]LogPlan{
		"nothing asked":   {StdoutFilters: []string{"x"}},
		"the null device": {RunDir: os.DevNull, Tee: all, Redirects: all, StderrFilters: []string{"x"}},
	} {
		temp := t.TempDir()
		t.Chdir(temp)
		plan.Ranks = ranks(2)
		l, err := OpenLogs(plan)
		require.NoError(t, err, name)
		file, err := l.Redirect(0, Stdout)
		require.NoError(t, err, name)
		assert.Nil(t, file, name)
		assert.Nil(t, l.Tee(0, Stdout), name)
		assert.Empty(t, l.ErrorFile(0)+l.Path(0, Stdout), name)
		require.NoError(t, l.Close(t.Context()), name)
		assert.Empty(t, tree(t, temp), name)
	}
}

func TestLogDirThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	below, err := ParsePattern(file + "/rank.%r")
	require.NoError(t, err)
	for _, tt := range []struct {
		plan LogPlan
		want string
	}{
		{LogPlan{RunDir: file + "/run"}, "make log directory " + file +
			": not a directory; give --log-dir a writable directory"},
		{LogPlan{RunDir: filepath.Join(file, "below", "run")}, "make log directory " + file +
			": not a directory; give --log-dir a writable directory"},
		{
			LogPlan{RunDir: "/proc/no/such/run"},
			"make log directory /proc/no: no such file or directory; give --log-dir a writable directory",
		},
		{
			LogPlan{RunDir: "/proc/run", Tee: StreamMap{1}},
			"no such file or directory; give --log-dir a writable directory",
		},
		{LogPlan{Names: [2]Pattern{below}, Ranks: ranks(1), Redirects: StreamMap{1}}, "make log directory " + file +
			": not a directory"},
	} {
		_, err := OpenLogs(tt.plan)
		assert.ErrorContains(t, err, tt.want)
	}
}

func TestFailedOpeningLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenLogs(LogPlan{RunDir: dir + "/run", Ranks: slices.Concat(ranks(2), ranks(1))})
	require.ErrorContains(t, err, "file exists", "two ranks with one local rank")
	assert.Empty(t, tree(t, dir))
}

func TestFilteredLines(t *testing.T) {
	template, err := ParseTemplate("<${rank}> ")
	require.NoError(t, err)
	for _, tt := range []struct {
		name     string
		template Pattern
		want     string
	}{
		{"torchrun's tag", Pattern{}, "[default0]:loss 1\n[default0]:the end, a loss\n"},
		{"a template", template, "<0> loss 1\n<0> the end, a loss\n"},
	} {
		run := t.TempDir() + "/run"
		l, err := OpenLogs(LogPlan{
			RunDir: run, Ranks: ranks(2), Tee: StreamMap{3, 3, 3, 3}, Template: tt.template,
			StdoutFilters: []string{"loss", "gain"},
			Show:          func(r RankInfo) bool { return r.LocalRank == 0 },
		})
		require.NoError(t, err)
		w := l.Tee(0, Stdout)
		for _, piece := range []string{"lo", "ss 1\nnothing\nthe ", "end, a ", "loss"} {
			_, err := w.Write([]byte(piece))
			require.NoError(t, err)
		}
		feed(t, l, 0, Stderr, "loss on stderr\n")
		feed(t, l, 1, Stdout, "loss of a rank that is not shown\n")
		require.NoError(t, l.Close(t.Context()))
		assert.Equal(t, tt.want, read(t, run+"/attempt_0/filtered_stdout.log"), tt.name)
		assert.Equal(t, "loss 1\nnothing\nthe end, a loss", read(t, l.Path(0, Stdout)), "the rank's own file has its bytes")
		assert.NoFileExists(t, run+"/attempt_0/filtered_stderr.log")
	}
}

func TestFilterJudgesEndlessLinesInPieces(t *testing.T) {
	f := newLineFilter(nil, []string{"x"}, "")
	assert.Empty(t, f.feed(bytes.Repeat([]byte{'y'}, MaxLine-1)))
	assert.Len(t, f.feed([]byte("x")), MaxLine+1)
	assert.Empty(t, f.rest())
}

// logFailures records the calls of LogPlan.Failed.
type logFailures struct {
	mu    sync.Mutex
	paths []string
	errs  []error
}

func (f *logFailures) failed(path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = append(f.paths, filepath.Base(path))
	f.errs = append(f.errs, err)
}

func (f *logFailures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.paths)
}

// fakeFile is a file on a disk that fails or hangs.
type fakeFile struct {
	recorder
	err    error         // error of writes
	gate   chan struct{} // closed to release writes; nil: they never block
	closed error         // error of Close
	closes int
}

func (f *fakeFile) Write(p []byte) (int, error) {
	if f.gate != nil {
		<-f.gate
	}
	if f.err != nil {
		return 0, f.err
	}
	return f.recorder.Write(p)
}

func (f *fakeFile) Close() error {
	f.closes++
	return f.closed
}

// fakeLogs returns Logs of two ranks' stdout with the given files.
func fakeLogs(plan LogPlan, files ...*fakeFile) *Logs {
	l := &Logs{plan: plan, tees: make(map[teeKey]*tee), disk: newDisk(plan)}
	for rank, file := range files {
		f := &logFile{path: "log/" + string(rune('a'+rank)), w: file, owner: credit{rank: rank, stream: Stdout}}
		l.disk.files = append(l.disk.files, f)
		l.tees[teeKey{rank, Stdout}] = &tee{disk: l.disk, file: f}
	}
	return l
}

func TestFullDisk(t *testing.T) {
	var failed logFailures
	var credits account
	full := &fs.PathError{Op: "write", Path: "log/a", Err: unix.ENOSPC}
	good := &fakeFile{}
	l := fakeLogs(LogPlan{Failed: failed.failed, Consumed: credits.consumed},
		&fakeFile{err: full}, &fakeFile{err: full}, good, &fakeFile{closed: unix.EDQUOT})
	for range 3 {
		for rank := range 4 {
			_, err := l.Tee(rank, Stdout).Write([]byte("12345"))
			require.NoError(t, err)
		}
	}
	err := l.Close(t.Context())
	require.EqualError(t, err, "log log/a and 2 more are incomplete: no space left on device")
	assert.Equal(t, 2, failed.count(), "each cause once")
	assert.ErrorIs(t, errors.Join(failed.errs...), unix.ENOSPC)
	assert.ErrorIs(t, errors.Join(failed.errs...), unix.EDQUOT, "a network's disk tells at close")
	assert.Equal(t, "123451234512345", good.take(), "the other files go on")
	for rank := range 4 {
		assert.Equal(t, 15, credits.of(rank, Stdout), "rank %d", rank)
	}
}

func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed logFailures
		var credits account
		hung := &fakeFile{gate: make(chan struct{})}
		other := &fakeFile{}
		l := fakeLogs(LogPlan{Failed: failed.failed, Consumed: credits.consumed}, hung, other)
		write := func(rank int, text string) {
			_, err := l.Tee(rank, Stdout).Write([]byte(text))
			require.NoError(t, err)
		}
		write(0, "one")
		synctest.Wait()
		write(0, "two")
		write(1, "three")
		time.Sleep(DiskTimeout - 1)
		synctest.Wait()
		assert.Zero(t, credits.of(0, Stdout)+credits.of(1, Stdout)+failed.count(), "it may yet go on")

		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, failed.paths)
		assert.ErrorIs(t, failed.errs[0], errStuck)
		write(0, "four")
		require.ErrorContains(t, l.Close(t.Context()), "log log/a and 1 more are incomplete: no progress for 10s")
		assert.Equal(t, 10, credits.of(0, Stdout))
		assert.Equal(t, 5, credits.of(1, Stdout))

		close(hung.gate) // the write returns at last; its credit must not be returned twice
		synctest.Wait()
		assert.Equal(t, 10, credits.of(0, Stdout))
		assert.Equal(t, []int{1, 1}, []int{hung.closes, other.closes})
	})
}

func TestSlowDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed logFailures
		slow := &fakeFile{gate: make(chan struct{})}
		l := fakeLogs(LogPlan{Failed: failed.failed}, slow)
		for range 3 {
			_, _ = l.Tee(0, Stdout).Write([]byte("x"))
			time.Sleep(DiskTimeout / 2)
			synctest.Wait()
			go func() { slow.gate <- struct{}{} }()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = l.Tee(0, Stdout).Write([]byte("y"))
		require.ErrorIs(t, l.Close(ctx), context.Canceled)
		close(slow.gate)
		require.NoError(t, l.Close(t.Context()))
		assert.Equal(t, "xxxy", slow.take())
		assert.Zero(t, failed.count())
	})
}

func TestLogsOfManyPieces(t *testing.T) {
	script := randomTranscript(testneeds.Rand(t))
	var credits account
	run := t.TempDir() + "/run"
	l, err := OpenLogs(LogPlan{
		RunDir: run, Ranks: ranks(len(script.streams)),
		Tee: slices.Repeat(StreamMap{3}, len(script.streams)), Consumed: credits.consumed,
		StdoutFilters: []string{""},
	})
	require.NoError(t, err)
	at := make([]int, len(script.streams))
	for _, p := range script.pieces {
		_, err := l.Tee(p.rank, Stdout).Write(script.streams[p.rank][at[p.rank]:][:p.n])
		require.NoError(t, err)
		at[p.rank] += p.n
	}
	require.NoError(t, l.Close(t.Context()))
	lines := 0
	for rank, stream := range script.streams {
		assert.True(t, read(t, l.Path(rank, Stdout)) == string(stream), "log of rank %d", rank)
		assert.Equal(t, len(stream), credits.of(rank, Stdout))
		lines += bytes.Count(stream, newline)
		if len(stream) > 0 && !bytes.HasSuffix(stream, newline) {
			lines++
		}
	}
	filtered := read(t, run+"/attempt_0/filtered_stdout.log")
	assert.Equal(t, lines, strings.Count(filtered, "\n"))
	assert.Equal(t, lines, strings.Count(filtered, "[default"))
}

// Files with names from a pattern belong to ranks, and are truncated at first.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "1", "rank.05", "stdout")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("old\n"), 0o644))
	for attempt, want := range []string{"a\n", "a\na\n"} {
		l, err := OpenLogs(LogPlan{
			Names: [2]Pattern{mustPattern(dir + "/1/rank.%R/%s"), {}}, Digits: 2, Attempt: attempt,
			Ranks: []RankInfo{{Rank: 4}, {Rank: 5, LocalRank: 1}}, Tee: StreamMap{0: Stdout, 1: Stdout},
		})
		require.NoError(t, err)
		require.True(t, l.Files())
		require.Equal(t, file, l.Path(1, Stdout))
		require.Empty(t, l.Path(1, Stderr))
		_, err = l.Tee(1, Stdout).Write([]byte("a\n"))
		require.NoError(t, err)
		require.NoError(t, l.Close(context.Background()))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// The host name comes from the host itself: it must not lead a log file out of its directory.
func TestNamedFilesOfHostileHosts(t *testing.T) {
	for host, want := range map[string]string{
		"node1":                        "logs/node1.0",
		"../victim/.ssh/authorized":    "logs/.._victim_.ssh_authorized.0",
		"/etc/cron.d/x":                "logs/_etc_cron.d_x.0",
		"..":                           "logs/__.0",
		"":                             "logs/_.0",
		"n\x1b/1\x00":                  "logs/n^[_1^@.0",
		"10.0.0.1":                     "logs/10.0.0.1.0",
		"../../../../../../tmp/victim": "logs/.._.._.._.._.._.._tmp_victim.0",
	} {
		dir := t.TempDir()
		l, err := OpenLogs(LogPlan{
			Names: [2]Pattern{mustPattern(dir + "/job/logs/%h.%r"), {}}, Ranks: []RankInfo{{Host: host}}, Tee: StreamMap{Stdout},
		})
		require.NoError(t, err, "%q", host)
		_, err = l.Tee(0, Stdout).Write([]byte("a key of the attacker's\n"))
		require.NoError(t, err)
		require.NoError(t, l.Close(context.Background()))
		require.Equal(t, []string{"job/" + want}, filesBelow(t, dir), "%q", host)
	}
}

func TestNamedDirectoriesOfHostileHosts(t *testing.T) {
	for _, pattern := range []string{"/job/%h/%r", "/job/.%h/%r", "/job/logs/%h"} {
		for _, host := range []string{"..", ".", "", "../..", "./../."} {
			dir := t.TempDir()
			plan := LogPlan{
				Names: [2]Pattern{mustPattern(dir + pattern), {}}, Ranks: []RankInfo{{Host: host}}, Tee: StreamMap{Stdout},
			}
			name := plan.File("", 0, Stdout)
			require.Equal(t, filepath.Clean(name), name, "%s %q", pattern, host)
			require.True(t, strings.HasPrefix(name, dir+"/job/"), name)
		}
	}
}

func filesBelow(t *testing.T, dir string) (files []string) {
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}
