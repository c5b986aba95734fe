package forkserver

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/spec"
)

// TestMain adopts orphans, as an agent does.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// rank is a Sink of one rank.
type rank struct {
	pid    int
	out    [3]string
	status process.Status
	open   sync.WaitGroup // two streams and the process
}

func (r *rank) Started(_, pid int)              { r.pid = pid }
func (*rank) BindFailed(int, process.BindError) {}
func (*rank) SocketReadable(int, int)           {}
func (r *rank) Closed(int, int)                 { r.open.Done() }
func (r *rank) Output(_, stream int, p []byte)  { r.out[stream] += string(p) }
func (r *rank) Exited(_ int, s process.Status, _ time.Time) {
	r.status = s
	r.open.Done()
}

// run runs one rank to its end.
func run(t *testing.T, c process.Common, dir string) *rank {
	r := &rank{}
	r.open.Add(3)
	g := process.NewGroup(r)
	defer func() { assert.NoError(t, g.Close()) }()
	pipe := process.Stream{Kind: process.Pipe}
	require.NoError(t, g.Start(c, []process.Rank{{
		Dir: dir, Env: []string{"RANK=0"}, Stdin: pipe, Stdout: pipe, Stderr: pipe,
		Binding: process.Binding{CPUs: []uint64{1}, Policy: 2, Nodes: []uint64{1}},
	}}))
	in := g.Stdin(0)
	_, _ = io.WriteString(in, "input") // the program may have ended
	require.NoError(t, in.Close())
	r.open.Wait()
	return r
}

func python(t *testing.T) string {
	path, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output() // behind a shim
	require.NoError(t, err)
	return string(path)
}

func start(t *testing.T, app spec.App, environ []string, imports ...string) (s *Server, result chan error) {
	result = make(chan error, 1)
	s, err := Start(Config{App: app, Environ: environ, Imports: imports, Stderr: io.MultiWriter(os.Stderr)},
		func(err error) { result <- err })
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, result
}

// A rank of the server sees what one that was executed sees, except for the imported modules.
func TestForkedRankIsLikeAnExecutedOne(t *testing.T) {
	dir := t.TempDir() // the probe also as a package, and as a directory to run
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "package"), 0o700))
	require.NoError(t, os.Link(filepath.Join(dir, "probe.py"), filepath.Join(dir, "package", "__main__.py")))
	environ := []string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "BYTES=\xff"}
	for name, words := range map[string][]string{
		"script": {"-u", "probe.py", "a b", ""}, "path": {"./probe.py", "exit"}, "module": {"-m", "probe", "-x"},
		"package": {"-u", "-m", "package"}, "directory": {"package"}, "isolated": {"-I", "probe.py", "kill"},
		"command": {"-c", "import probe", "fail"}, "failure": {"-W", "error", "probe.py", "fail"}, "missing": {"none.py"},
		"no module": {"-m", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			app := spec.App{Path: python(t), Argv: append([]string{"python"}, words...)}
			s, result := start(t, app, environ, "wave", "json", "resource")
			require.NoError(t, <-result)
			common := process.Common{Env: environ, Path: app.Path, Argv: app.Argv}
			want := run(t, common, dir)
			forked := 0
			common.Fork = func(f process.Fork) (pid int, failed process.BindError, err error) {
				pid, failed, err = s.Fork(f, nil)
				forked = pid
				return pid, failed, err
			}
			got := run(t, common, dir)
			require.Equal(t, got.pid, forked)
			assert.Equal(t, want.status, got.status)
			assert.Equal(t, want.out[2], got.out[2])
			var cold, warm map[string]any
			if want.out[1] == "" {
				assert.Empty(t, got.out[1])
				return
			}
			require.NoError(t, json.Unmarshal([]byte(want.out[1]), &cold))
			require.NoError(t, json.Unmarshal([]byte(got.out[1]), &warm))
			assert.Equal(t, false, cold["warm"])
			assert.Equal(t, true, warm["warm"])
			delete(cold, "warm")
			delete(warm, "warm")
			assert.Equal(t, cold, warm)
		})
	}
}

func TestRanksThatTheServerCannotStart(t *testing.T) {
	app := spec.App{Path: python(t), Argv: []string{"python", "-u", "-c", "import sys; print('wave' in sys.modules)"}}
	environ := []string{"OMP_NUM_THREADS=2"}
	s, result := start(t, app, environ, "wave")
	require.NoError(t, <-result)
	s.since = time.Time{} // imports that have ended are not late
	for range 20 {
		common := process.Common{Env: environ, Path: app.Path, Argv: app.Argv}
		common.Fork = func(f process.Fork) (int, process.BindError, error) { return s.Fork(f, nil) }
		require.Equal(t, "True\n", run(t, common, "/").out[1])
	}
	fork := func(change func(*process.Fork)) error {
		f := process.Fork{Path: app.Path, Argv: app.Argv, Env: environ}
		change(&f)
		_, _, err := s.Fork(f, nil)
		return err
	}
	for name, change := range map[string]func(*process.Fork){
		"other threads":  func(f *process.Fork) { f.Env = []string{"OMP_NUM_THREADS=1"} },
		"other options":  func(f *process.Fork) { f.Argv = []string{"python", "-B", "-c", "pass"} },
		"no program":     func(f *process.Fork) { f.Argv = []string{"python", "-u"} },
		"other programs": func(f *process.Fork) { f.Path = "/bin/true" },
	} {
		require.ErrorIs(t, fork(change), ErrUnable, name)
	}
	require.NoError(t, s.cmd.Process.Kill())
	common := process.Common{Env: environ, Path: app.Path, Argv: app.Argv}
	common.Fork = func(f process.Fork) (int, process.BindError, error) { return s.Fork(f, nil) }
	require.Equal(t, "False\n", run(t, common, "/").out[1], "without its server a rank is executed")
	require.ErrorIs(t, fork(func(*process.Fork) {}), ErrUnable)
}

func TestImportsThatFail(t *testing.T) {
	app := spec.App{Path: python(t), Argv: []string{"python", "-c", "pass"}}
	s, result := start(t, app, nil, "wave", "no_such_module")
	require.EqualError(t, <-result, "import no_such_module: No module named 'no_such_module'")
	_, _, err := s.Fork(process.Fork{Path: app.Path, Argv: app.Argv}, nil)
	require.ErrorIs(t, err, ErrUnable)

	_, err = Start(Config{App: spec.App{Path: "/no/python", Argv: []string{"python", "-c", "pass"}}}, nil)
	require.EqualError(t, err, "start Python to import modules: fork/exec /no/python: no such file or directory")

	environ := []string{"PYTHONPATH=testdata"}
	s, result = start(t, app, environ, "endless")
	hurry := make(chan struct{})
	close(hurry)
	_, _, err = s.Fork(process.Fork{Path: app.Path, Argv: app.Argv, Env: environ}, hurry)
	require.ErrorIs(t, err, ErrUnable)
	s.Close()
	require.EqualError(t, <-result, "import modules: Python ended")
}

// A module leaves a process that keeps its standard error open.
func TestImportsThatLeaveAProcess(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	app := spec.App{Path: python(t), Argv: []string{"python", "-c", "pass"}}
	s, result := start(t, app, []string{"PATH=/usr/bin:/bin", "PYTHONPATH=testdata", "FIFO=" + fifo}, "leaver")
	require.NoError(t, <-result)
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	require.NoError(t, err)
	s.Close()
	require.NoError(t, w.Close()) // the process ends
}

// Signals of this process, such as SIGCHLD, do not end a request.
func TestSignalsDuringAFork(t *testing.T) {
	app := spec.App{Path: python(t), Argv: []string{"python", "-c", "pass"}}
	s, result := start(t, app, nil)
	require.NoError(t, <-result)
	require.NoError(t, s.cmd.Process.Signal(unix.SIGSTOP))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	go func() {
		for call := ""; !strings.HasPrefix(call, fmt.Sprint(unix.SYS_READ, " ")); { // until it waits for the answer
			text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", thread))
			call = string(text)
		}
		_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		_ = s.cmd.Process.Signal(unix.SIGCONT)
	}()
	_, _, err := s.Fork(process.Fork{Path: app.Path, Argv: app.Argv, Files: []int{0, 1, 2}}, nil)
	require.NoError(t, err)
}
