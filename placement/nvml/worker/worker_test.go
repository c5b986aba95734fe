package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/placement/gpufacts"
)

// roleVariable selects the role of this test binary as a worker.
const roleVariable = "NVML_WORKER_ROLE"

// pipeVariable names a pipe. A role writes to it when it is ready.
const pipeVariable = "NVML_WORKER_PIPE"

var roles = map[string]func(version string) error{
	"answers":        answers,
	"tells nothing":  func(version string) error { return Answer(os.Stdout, version, "v1", failing) },
	"says nothing":   func(string) error { return nil },
	"prints garbage": func(string) error { return write("\x1b[31mloading\n" + strings.Repeat("x", 100)) },
	"prints JSON":    func(string) error { return write(`{"gpus":[]}`) },
	"is newer":       func(string) error { return write(`{"format":2,"version":"v1","facts":{}}`) },
	"is half":        func(string) error { return write(`{"format":1,"version":"v1"}`) },
	"floods":         func(string) error { return flood() },
	"fails":          func(string) error { return errors.New("\nno library today") },
	"crashes":        func(string) error { return syscall.Kill(os.Getpid(), syscall.SIGSEGV) },
	"hangs":          func(string) error { return hang() },
	"leaves a child": func(version string) error { return leaveChild(version) },
}

func answers(version string) error {
	return Answer(os.Stdout, version, "v1", func() gpufacts.Facts {
		return gpufacts.Facts{GPUs: []gpufacts.GPU{{PCI: "a", Name: "H100"}}}
	})
}

func failing() gpufacts.Facts { return gpufacts.Facts{Error: "no driver"} }

func write(text string) error {
	_, err := os.Stdout.WriteString(text)
	return err
}

func flood() error {
	for range 1 << 10 {
		if err := write(strings.Repeat("[", 1<<16)); err != nil {
			return err
		}
	}
	return nil
}

// hang reports that it is ready, then hangs.
func hang() error {
	pipe, err := os.OpenFile(os.Getenv(pipeVariable), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(pipe, os.Getpid()); err != nil {
		return err
	}
	select {}
}

// leaveChild answers, but a process that does not end keeps its output open.
func leaveChild(version string) error {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), roleVariable+"=hangs")
	child.Stdout = os.Stdout
	if err := child.Start(); err != nil {
		return err
	}
	return answers(version)
}

func TestMain(m *testing.M) {
	play, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // for workers with the race detector
		os.Exit(m.Run())
	}
	version := ""
	if len(os.Args) == 3 && os.Args[1] == Verb {
		version = os.Args[2]
	}
	if err := play(version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// never is an unlimited timeout.
func never() chan error { return make(chan error, 1) }

func TestFacts(t *testing.T) {
	for role, test := range map[string]struct {
		version string
		fails   string // "": succeeds
	}{
		"answers":  {"v1", ""},
		"answers ": {"", ""},
		"answers  ": {
			"v2", "gorun did not query NVIDIA's library (gorun nvml-facts: version v1, gorun is v2: install both together)",
		},
		"says nothing": {"v1", `gorun did not query NVIDIA's library (gorun nvml-facts: answered "")`},
		"prints garbage": {
			"v1", `gorun did not query NVIDIA's library (gorun nvml-facts: answered ` +
				`"\x1b[31mloading\n` + strings.Repeat("x", 67) +
				`")`,
		},
		"prints JSON": {"v1", `gorun did not query NVIDIA's library (gorun nvml-facts: answered "{\"gpus\":[]}")`},
		"is newer": {
			"", "gorun did not query NVIDIA's library (gorun nvml-facts: version v1 answers in format 2, gorun " +
				"expects format 1)",
		},
		"is half": {
			"v1", `gorun did not query NVIDIA's library (gorun nvml-facts: answered "{\"format\":1,\"version\":\"v1\"}")`,
		},
		"floods": {"v1", "NVIDIA's library did not answer (gorun nvml-facts: the answer is incomplete)"},
		"fails":  {"v1", "NVIDIA's library did not answer (gorun nvml-facts: exit status 3: no library today)"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Setenv(roleVariable, strings.TrimSpace(role))
			facts, err := Program{Path: Itself, Version: test.version}.within(never())
			if test.fails != "" {
				assert.EqualError(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, gpufacts.Facts{GPUs: []gpufacts.GPU{{PCI: "a", Name: "H100"}}}, facts)
		})
	}
}

// A missing driver is a valid answer.
func TestLibraryTellsNothing(t *testing.T) {
	t.Setenv(roleVariable, "tells nothing")
	facts, err := Program{Path: Itself}.Facts(8)
	require.NoError(t, err)
	assert.Equal(t, "no driver", facts.Error)
}

// The Go runtime prints its own crashes. Other programs die from the signal.
func TestCrash(t *testing.T) {
	t.Setenv(roleVariable, "crashes")
	_, err := Program{Path: Itself}.within(never())
	assert.ErrorContains(t, err, "NVIDIA's library did not answer (gorun nvml-facts: ")
	assert.ErrorContains(t, err, "SIGSEGV")
}

// hanging creates a pipe on which the role reports its process ID.
func hanging(t *testing.T, role string) (pid func() int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	t.Setenv(roleVariable, role)
	t.Setenv(pipeVariable, path)
	return func() (pid int) {
		pipe, err := os.Open(path)
		require.NoError(t, err)
		defer pipe.Close()
		_, err = fmt.Fscan(pipe, &pid)
		require.NoError(t, err)
		return pid
	}
}

// A worker that hangs is killed and reaped after the timeout.
func TestHang(t *testing.T) {
	pid := hanging(t, "hangs")
	giveUp := never()
	gone := make(chan int, 1)
	go func() {
		gone <- pid()
		giveUp <- errors.New("no answer within 15s")
	}()
	_, err := Program{Path: Itself}.within(giveUp)
	assert.EqualError(t, err, "NVIDIA's library did not answer (gorun nvml-facts: no answer within 15s)")
	assert.Equal(t, syscall.ESRCH, syscall.Kill(<-gone, 0))
}

// A leftover process of a worker does not block the caller.
func TestChildLeftBehind(t *testing.T) {
	pid := hanging(t, "leaves a child")
	child := make(chan int, 1)
	go func() { child <- pid() }()
	facts, err := Program{Path: Itself}.within(never())
	left := <-child
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	require.NoError(t, err)
	assert.Len(t, facts.GPUs, 1)
}

func TestPatience(t *testing.T) {
	assert.Equal(t, "15s", Patience(1).String())
	assert.Equal(t, "50s", Patience(8).String())
	assert.Equal(t, "50s", Patience(0).String())
	assert.EqualError(t, <-deadline(0), "no answer within 0s")
}

// place creates a link to this test binary in place of gorun-gpu.
func place(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(dir, Name)
	require.NoError(t, os.Symlink(self, path))
	return path
}

func TestFind(t *testing.T) {
	beside, inPath, empty := t.TempDir(), t.TempDir(), t.TempDir()
	near, far := place(t, beside), place(t, inPath)
	t.Setenv(roleVariable, "answers")
	find := func(dir string) (string, error) { return Program{Beside: filepath.Join(dir, "gorun")}.Find() }

	t.Setenv("PATH", inPath)
	path, err := find(beside)
	require.NoError(t, err)
	assert.Equal(t, near, path)
	path, err = find(empty)
	require.NoError(t, err)
	assert.Equal(t, far, path)
	facts, err := Program{Beside: filepath.Join(empty, "gorun"), Version: "v1"}.within(never())
	require.NoError(t, err)
	assert.Len(t, facts.GPUs, 1)
	_, err = Program{Beside: filepath.Join(beside, "gorun"), Version: "v3"}.within(never())
	assert.EqualError(t, err, "gorun did not query NVIDIA's library "+
		"("+near+": version v1, gorun is v3: install both together)")

	t.Setenv("PATH", empty)
	_, err = Program{Beside: filepath.Join(empty, "gorun")}.within(never())
	assert.EqualError(t, err, "gorun did not query NVIDIA's library (gorun-gpu is not in "+empty+" or PATH)")
	require.NoError(t, os.WriteFile(filepath.Join(empty, Name), nil, 0o600))
	_, err = find(empty)
	assert.ErrorContains(t, err, "permission denied")
	own, err := os.Executable()
	require.NoError(t, err)
	_, err = Program{}.Find()
	assert.ErrorContains(t, err, "not in "+filepath.Dir(own))

	_, err = Program{Path: filepath.Join(empty, "missing")}.within(never())
	assert.EqualError(t, err, "NVIDIA's library did not answer ("+empty+"/missing: no such file or directory)")
}

// The caller can set the timeout.
func TestFactsWithin(t *testing.T) {
	t.Setenv(roleVariable, "answers")
	facts, err := Program{Path: Itself, Version: "v1"}.FactsWithin(time.Minute)
	require.NoError(t, err)
	assert.Len(t, facts.GPUs, 1)
}
