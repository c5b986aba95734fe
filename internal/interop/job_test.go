package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
)

const (
	// patience limits how long one job may take on a busy machine.
	patience = 6 * time.Minute
	// leaving limits how long processes of a job may take to exit on a busy machine. Tests in virtual time and
	// `make soak` check the real deadlines.
	leaving = 60 * time.Second
)

// markVariable is in the environment of every process of a test's jobs.
const markVariable = "INTEROP_MARK"

// marks holds the tests that have registered the check for orphans.
var marks sync.Map

// markOf returns the entry that marks the jobs of t. When t ends, no process may carry it; markOf kills those that
// do.
func markOf(t *testing.T) string {
	t.Helper()
	mark := fmt.Sprintf("%s=%d %s", markVariable, os.Getpid(), t.Name())
	if _, known := marks.LoadOrStore(mark, true); known {
		return mark
	}
	t.Cleanup(func() {
		var left []string
		assert.Eventually(t, func() bool { left = marked(mark); return len(left) == 0 }, leaving, 100*time.Millisecond)
		for _, process := range left {
			t.Errorf("left behind: %s", process)
			var pid int
			if _, err := fmt.Sscan(process, &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return mark
}

// job is one command to run.
type job struct {
	argv    []string
	dir     string
	environ []string // added to the clean environment
	without []string // removed from it
	user    *syscall.Credential
	hosts   *testhosts.Set // its head starts the job
	stdin   io.Reader
	stdout  *os.File // receives the output, which is then not kept
}

// result is the outcome of a job.
type result struct {
	stdout, stderr string
	code           int // 128 + n for signal n
}

// cleanEnvironment is the caller's environment without variables that would make jobs differ. It drops settings of
// launchers, and Python settings of this shell.
func cleanEnvironment() []string {
	prefixes := []string{
		"GORUN_", "PET_", "TORCH", "OMP_", "MASTER_", "INTEROP_", "PMI", "OMPI_", "SLURM_", "PYTHON",
		"VIRTUAL_ENV",
	}
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
	})
}

// gorun is a job with the gorun that TestMain built.
func gorun(args ...string) job { return job{argv: append([]string{built("gorun")}, args...)} }

// with adds variables.
func (j job) with(environ ...string) job {
	j.environ = append(slices.Clone(j.environ), environ...)
	return j
}

// running is a started job.
type running struct {
	command        *exec.Cmd
	mark           string
	stdout, stderr watched
	ended          chan struct{}
}

// start starts the job and ensures that no process of it outlives the test.
func (j job) start(t *testing.T) *running {
	t.Helper()
	r := &running{mark: markOf(t), ended: make(chan struct{})}
	r.stdout.changed, r.stderr.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	r.command = exec.Command(j.argv[0], j.argv[1:]...)
	if j.hosts != nil {
		r.command = j.hosts.Command(testhosts.Head, j.argv...)
	}
	r.command.Dir = j.dir
	r.command.Env = append(append(slices.DeleteFunc(cleanEnvironment(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(j.without, name)
	}), j.environ...), r.mark)
	r.command.Stdin, r.command.Stdout, r.command.Stderr = j.stdin, &r.stdout, &r.stderr
	if j.stdout != nil {
		r.command.Stdout = j.stdout
	}
	r.command.SysProcAttr = &syscall.SysProcAttr{Credential: j.user}
	require.NoError(t, r.command.Start())
	go func() {
		defer close(r.ended)
		_ = r.command.Wait() // ProcessState holds the status
	}()
	t.Cleanup(func() { r.cleanUp(t) })
	return r
}

// cleanUp fails the test if the job still runs, and kills it.
func (r *running) cleanUp(t *testing.T) {
	select {
	case <-r.ended:
	default:
		t.Errorf("the job still runs: %s\n%s%s", r.command, r.stdout.String(), r.stderr.String())
		_ = r.command.Process.Kill()
	}
}

// wait returns the result of the job, or fails the test after patience.
func (r *running) wait(t *testing.T) result {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatalf("hangs: %s\nstdout: %s\nstderr: %s", r.command, r.stdout.String(), r.stderr.String())
	}
	status, ok := r.command.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return result{r.stdout.String(), r.stderr.String(), code}
}

// run starts the job and waits for its end.
func (j job) run(t *testing.T) result {
	t.Helper()
	return j.start(t).wait(t)
}

// torchAborts is what PyTorch 2.15 says if it aborts at the end of a program, as it does beside a load: in 5 of 36 runs
// under torchrun, too.
const torchAborts = "terminate called without an active exception"

// succeed runs a job that must succeed, again if PyTorch aborts.
func (j job) succeed(t *testing.T) string {
	t.Helper()
	got := j.run(t)
	for strings.Contains(got.stderr, torchAborts) {
		got = j.run(t)
	}
	require.Zero(t, got.code, "%s: stdout: %s\nstderr: %s", j.argv, got.stdout, got.stderr)
	return got.stdout
}

// tell runs ranks of role "tell" and returns their reports, sorted by rank.
func (j job) tell(t *testing.T) []seen {
	t.Helper()
	return parseSeen(t, j.with(roleVariable+"=tell").succeed(t))
}

// parseSeen reads the lines of ranks of role "tell".
func parseSeen(t *testing.T, output string) []seen {
	t.Helper()
	var all []seen
	for line := range strings.Lines(output) {
		var one seen
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b seen) int { return strings.Compare(a.Environ["RANK"], b.Environ["RANK"]) })
	return all
}

// marked lists the processes whose environment holds mark. It omits zombies, which their parents must reap.
func marked(mark string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), mark) {
			continue
		}
		dir := filepath.Dir(path)
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, filepath.Base(dir)+" "+
			string(bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '})))
	}
	return found
}

// watched is a stream that a test can read while it grows.
type watched struct {
	mutex   sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	n, err := w.text.Write(p)
	select {
	case w.changed <- struct{}{}:
	default: // a notification is already pending
	}
	return n, err
}

func (w *watched) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.text.String()
}

// until waits until text occurs a number of times in a stream of the job. It reports whether that happened before
// the job ended.
func (r *running) until(t *testing.T, stream *watched, text string, times int) bool {
	t.Helper()
	late := time.After(patience)
	for {
		if strings.Count(stream.String(), text) >= times {
			return true
		}
		select {
		case <-stream.changed:
		case <-r.ended:
			return strings.Count(stream.String(), text) >= times
		case <-late:
			t.Fatalf("%q never came: %s\nstdout: %s\nstderr: %s", text, r.command, r.stdout.String(), r.stderr.String())
		}
	}
}

// signal sends a signal to the launcher.
func (r *running) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, r.command.Process.Signal(s))
}
