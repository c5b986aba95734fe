package interop

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// hangTimeout gives ranks enough time to reach their wait on a busy machine.
const hangTimeout = "5"

// playHang is a rank that waits for ever: rank 2 for data, the others for their peers.
func playHang() int {
	fmt.Println("ready")
	if os.Getenv("RANK") == "2" {
		return waitForData()
	}
	return waitForPeers(make(chan int))
}

//go:noinline
func waitForPeers(peers chan int) int { return <-peers }

//go:noinline
func waitForData() int {
	r, _, err := os.Pipe()
	if err != nil {
		return 1
	}
	n, _ := r.Read(make([]byte, 1))
	return n
}

// playDeaf handles SIGQUIT without Go's stack dump: it prints a line and keeps waiting.
func playDeaf() int {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	fmt.Println("ready")
	<-quit
	fmt.Fprint(os.Stderr, "SIGQUIT: quit\nno, I stay")
	return playHang()
}

// hung is the part of the report about a hang.
type hung struct {
	Ranks []struct {
		Rank        int
		State       string
		WaitChannel string `json:"wait_channel"`
		Stack       []string
		LastLine    string `json:"last_line"`
	}
}

// trafficOfOthers is a line on a busy machine: what passes through the node's interfaces counts as the ranks' at first.
var trafficOfOthers = regexp.MustCompile(`gorun: nothing was printed for .*\n`)

// hangs runs a job that hangs until gorun ends it, and returns the text and the data of its report.
func hangs(t *testing.T, j job) (text, stderr string, data hung) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	j.argv = append([]string{j.argv[0], "--hang-timeout", hangTimeout, "--report", file}, j.argv[1:]...)
	got := j.with("GORUN_BIND_TO=none").run(t) // no placement hint on machines with fewer CPUs
	require.Equal(t, 124, got.code, "stdout: %s\nstderr: %s", got.stdout, got.stderr)
	said, err := os.ReadFile(file)
	require.NoError(t, err)
	var report struct {
		Cause string
		First any `json:"first_failure"`
		Hang  hung
	}
	require.NoError(t, json.Unmarshal(said, &report))
	assert.Equal(t, "hang", report.Cause)
	assert.Nil(t, report.First, "who was asked did not fail first")
	before, text, found := strings.Cut(got.stderr,
		"gorun: hang: no output and no rendezvous progress for "+hangTimeout+"s (--hang-timeout)\n")
	require.True(t, found, got.stderr)
	return text, trafficOfOthers.ReplaceAllString(before, ""), report.Hang
}

// oddOne matches the report about ranks if only rank 2 waits for data.
var oddOne = regexp.MustCompile(`^  verdict  rank 2: in file\.go:\d+ \(os\.\(\*File\)\.Read\); the other 3 ranks: in .*
  \[2\] .*; last line: ready
           │ os\.\(\*File\)\.Read \(file\.go:\d+\) \[IO wait\]
           │ gorun/internal/interop\.waitForData \(hang_test\.go:\d+\)
           │ gorun/internal/interop\.play\S* \(\w+_test\.go:\d+\)
  \[0-1,3\] .*; last line: ready
           │ gorun/internal/interop\.waitForPeers \(hang_test\.go:\d+\) \[chan receive\]
           │ gorun/internal/interop\.play\S* \(\w+_test\.go:\d+\)
           │ gorun/internal/interop\.play\S* \(\w+_test\.go:\d+\)
exit 124
$`)

// A rank may be a shell that runs the program, and standard error may go to standard output.
const inItsOwnWay = `case $RANK in
0) "$0"; exit $?;;
1) exec "$0" 2>&1;;
esac
exec "$0"`

func TestGoRanksSayWhereTheyHang(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{
		"on the console": nil,
		"in files":       {"--log-dir", t.TempDir(), "--redirects", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, before, data := hangs(t,
				gorun(append(options, "-n", "4", "sh", "-c", inItsOwnWay, self(t))...).with(roleVariable+"=hang"))
			assert.Regexp(t, oddOne, text)
			assert.Empty(t, before, "the stacks are in the report and not on the console")
			require.Len(t, data.Ranks, 4)
			assert.NotEmpty(t, data.Ranks[0].WaitChannel)
			assert.Equal(t, "ready", data.Ranks[3].LastLine)
			assert.Contains(t, data.Ranks[3].Stack[0], "waitForPeers")
		})
	}
}

func TestTheWholeAnswerIsInTheLog(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	text, before, _ := hangs(t, gorun("-n", "4", "--log-dir", logs, "--tee", "2", self(t)).with(roleVariable+"=hang"))
	assert.Regexp(t, oddOne, text)
	assert.Empty(t, before)
	files, err := filepath.Glob(filepath.Join(logs, "*.err"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		log, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(log), "SIGQUIT: quit\nPC=")
		assert.Regexp(t, `(?m)^goroutine 1 .*\[(chan receive|IO wait)\]:$`, string(log))
	}
}

// For a rank that does not respond, gorun reports the state in the kernel, and keeps its output. A nested gorun
// gets no signal, because it would signal all ranks of its own job.
func TestRanksThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	const ranks = `case $RANK in
0) INTEROP_ROLE=deaf exec "$0";;
1) exec "$0" 2>&-;;
2) kill -STOP $$;;
3) exec "$1";;
4) exec "$2" -n 2 "$0";;
esac`
	text, before, data := hangs(t, gorun("--grace", "1", "-n", "5", "sh", "-c", ranks, self(t), stand(t),
		built("gorun")).with(roleVariable+"=hang"))
	assert.Contains(t, before, "SIGQUIT: quit\n")
	assert.Contains(t, before, "no, I stay\n", "its last line has no end, and may come last")
	assert.NotContains(t, before, "goroutine")
	assert.Contains(t, text, "  [2]      stopped")
	require.Len(t, data.Ranks, 5)
	assert.Equal(t, "ready", data.Ranks[0].LastLine, "the last line is the one before it was asked")
	for rank, standing := range []string{"sleeping", "sleeping", "stopped", "sleeping", "sleeping"} {
		assert.Equal(t, standing, data.Ranks[rank].State, rank)
		for _, frame := range data.Ranks[rank].Stack {
			assert.Contains(t, frame, "(kernel)")
		}
	}
}

// With --on-hang report no rank gets a signal that it might not survive.
func TestAJobThatGoesOnIsOnlyLookedAt(t *testing.T) {
	t.Parallel()
	r := gorun("--hang-timeout", hangTimeout, "--on-hang", "report", "-n", "2", self(t)).with(roleVariable +
		"=hang").start(t)
	require.True(t, r.until(t, &r.stderr, "gorun:   [0-1]", 1), "%s", r.stderr.String())
	require.NoError(t, r.command.Process.Signal(syscall.SIGTERM))
	got := r.wait(t)
	assert.Equal(t, 143, got.code)
	assert.NotContains(t, got.stderr, "goroutine")
}

// The server's pauses are those of a slow network. The kernel counts no bytes of Unix sockets.
func TestASlowDownloadIsNoHang(t *testing.T) {
	t.Parallel()
	for network, does := range map[string]string{"tcp": "uses? the network", "unix": "receives? data"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen(network, map[string]string{
				"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "socket"),
			}[network])
			require.NoError(t, err)
			var server sync.WaitGroup
			ended := make(chan struct{})
			for range 2 {
				server.Go(func() {
					conn, err := l.Accept()
					for err == nil {
						_, err = conn.Write(make([]byte, 4<<10))
						select {
						case <-ended:
							_ = conn.Close()
							return
						case <-time.After(100 * time.Millisecond):
						}
					}
				})
			}
			r := gorun("--hang-timeout", hangTimeout, "-n", "2", "python3", "-c", `import socket, sys
address = sys.argv[1]
if address[0] == "/":
    c = socket.socket(socket.AF_UNIX)
    c.connect(address)
else:
    c = socket.create_connection(address.split(":"))
while c.recv(4096): pass`, l.Addr().String()).start(t)
			// On a busy machine one of them may just have slept.
			assert.True(t, r.until(t, &r.stderr, "this is no hang: ", 1), "%s", r.stderr.String())
			assert.Regexp(t, "this is no hang: .*"+does, r.stderr.String())
			close(ended)
			assert.Equal(t, 0, r.wait(t).code)
			require.NoError(t, l.Close())
			server.Wait()
		})
	}
}

// pythonHang waits for a lock in the main thread while another thread waits elsewhere. The handlers of signals make no
// difference: the stacks are in the ranks' memory.
const pythonHang = `import faulthandler, os, signal, threading
rank = os.environ["RANK"]
if rank == "0": faulthandler.enable()
if rank == "1": faulthandler.register(signal.SIGUSR1)
if rank == "2": faulthandler.register(signal.SIGUSR2, all_threads=False)
threading.Thread(target=threading.Event().wait, daemon=True).start()
def step(lock):
    print("ready", flush=True)
    lock.acquire()
    lock.acquire()
step(threading.Lock())
`

func TestPythonRanksSayWhereTheyHang(t *testing.T) {
	t.Parallel()
	python := bareInterpreter(t)
	script, dir := filepath.Join(t.TempDir(), "train.py"), t.TempDir()
	require.NoError(t, os.WriteFile(script, []byte(pythonHang), 0o644))
	j := gorun("-n", "4", "/bin/sh", "-c", `ulimit -c "$(ulimit -H -c)"; exec "$0" "$1"`, python,
		script).with("PATH=/nonexistent")
	j.dir = dir
	text, before, data := hangs(t, j)
	assert.Empty(t, before)
	assert.Regexp(t, `  \[0-3\] .*; last line: ready
           │ step \(train\.py:10\)
           │ <module> \(train\.py:11\)
exit 124
$`, text)
	require.Len(t, data.Ranks, 4)
	assert.Equal(t, []string{"step (train.py:10)", "<module> (train.py:11)"}, data.Ranks[1].Stack)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "no core dump")
}

// bareInterpreter is Python itself rather than a script that searches for it, so it needs no PATH.
func bareInterpreter(t *testing.T) string {
	t.Helper()
	python := testneeds.Program(t, testneeds.LayerPython, "python3")
	said, err := exec.Command(python, "-c", "import sys; print(sys.executable)").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(said))
}
