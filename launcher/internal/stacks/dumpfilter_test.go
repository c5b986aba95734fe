package stacks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dumps are from real programs: Go 1.26 on SIGQUIT, Python 3.11 on
// SIGABRT and SIGUSR1.
var dumps = map[string]struct {
	program Program
	stack   []string
}{
	"go-chan.txt": {Go, []string{"main.exchange (main.go:10) [chan receive]", "main.main (main.go:31)"}},
	"go-read.txt": {
		Go, []string{"net.(*conn).Read (net.go:196) [IO wait]", "main.read (main.go:17)", "main.main (main.go:33)"},
	},
	"go-running.txt": {Go, []string{"main.spin (main.go:1) [running]", "main.main (main.go:35)"}},
	"go-waitgroup.txt": {Go, []string{
		"sync.(*WaitGroup).Wait (waitgroup.go:206) [sync.WaitGroup.Wait]", "main.main (main.go:18)",
		"in another goroutine: bufio.(*Reader).ReadString (bufio.go:499) [IO wait]", "main.(*shard).load (main.go:11)",
		"main.main.func1 (main.go:17)", "sync.(*WaitGroup).Go.func1 (waitgroup.go:258)",
	}},
	"python-abrt.txt":    {Python, []string{"step (train.py:8)", "<module> (train.py:10)"}},
	"python-usr1.txt":    {Python, []string{"step (train.py:8)", "<module> (train.py:10)"}},
	"python-usr1one.txt": {Python, []string{"step (train.py:8)", "<module> (train.py:10)"}},
}

func TestFilterRemovesDumps(t *testing.T) {
	for name, want := range dumps {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			stream := "epoch 1\nloading: " + string(text) + "next line\nunfinished"
			for _, size := range []int{1, 7, 4096, len(stream)} {
				a := DumpFilter{Program: want.program}
				shown := inPieces(&a, stream, size)
				assert.Equal(t, want.stack, a.Stack(), "pieces of %d", size)
				assert.True(t, a.Complete())
				assert.Equal(t, "epoch 1\nloading: next line\nunfinished", shown, "pieces of %d", size)
			}
		})
	}
}

func inPieces(a *DumpFilter, stream string, size int) string {
	var shown strings.Builder
	for rest := []byte(stream); len(rest) > 0; {
		n := min(size, len(rest))
		shown.Write(a.Filter(rest[:n]))
		rest = rest[n:]
	}
	shown.Write(a.Flush())
	return shown.String()
}

// Output that only looks like a dump is not lost.
func TestFilterKeepsOtherOutput(t *testing.T) {
	for _, program := range []Program{Go, Python} {
		for _, stream := range []string{
			"", "\n", "unfinished", "SIGQUIT: quit", "SIGQUIT: quit\n", "SIGQUIT: quit\nP", "SIGQUIT: quit\nbye\n",
			"SIGQUIT: quit\nSIGQUIT: quit\n", "goroutine 1 [chan receive]:\nmain.main()\n\t/main.go:1\n",
			"Thread 0x1 started\n", "Current thread", "File \"x.py\", line 1 in y\n", "a\r\nb\r\n",
			strings.Repeat("x", 3*heldLimit),
		} {
			for _, size := range []int{1, 3, 1 << 20} {
				a := DumpFilter{Program: program}
				assert.Equal(t, stream, inPieces(&a, stream, size))
				assert.Empty(t, a.Stack())
				assert.Equal(t, "more", string(a.Filter([]byte("more"))), "after Flush")
			}
		}
	}
}

// A pseudo-terminal ends lines in its own way.
func TestDumpFromATerminal(t *testing.T) {
	text, err := os.ReadFile("testdata/go-chan.txt")
	require.NoError(t, err)
	a := DumpFilter{Program: Go}
	assert.Equal(t, "ready\r\n", inPieces(&a, "ready\r\n"+strings.ReplaceAll(string(text), "\n", "\r\n"), 5))
	assert.Equal(t, dumps["go-chan.txt"].stack, a.Stack())
}

// A dump of very many goroutines is not kept whole, and goes nowhere.
func TestLongDump(t *testing.T) {
	worker := "goroutine 9 [select]:\nmain.work()\n\t/home/me/main.go:7 +0x1d\n\n"
	a := DumpFilter{Program: Go}
	shown := inPieces(&a, "SIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n\n"+
		"goroutine 1 [chan send, 2 minutes, locked to thread]:\nexample.com/app.Feed[...](0x1)\n\t/home/me/feed.go:3\n"+
		"main.main()\n\t/home/me/main.go:9\n\n"+strings.Repeat(worker, 20000), 1<<16)
	assert.Empty(t, shown)
	assert.Equal(t, []string{"example.com/app.Feed[...] (feed.go:3) [chan send]", "main.main (main.go:9)"}, a.Stack())
	assert.Less(t, len(a.text), 2*dumpLimit)
}

func TestRunningGoroutine(t *testing.T) {
	text := "SIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex()\n\t/go/src/runtime/a.s:1\n\n" +
		"goroutine 1 [running]:\n\tgoroutine running on other thread; stack unavailable\n\ngs     0x0\n"
	assert.Equal(t, []string{"goroutine [running]"}, goStack(text))
	assert.Empty(t, goStack(""))
}

func TestPythonPlace(t *testing.T) {
	for file, want := range map[string]string{
		"/home/me/.venv/lib/python3.11/site-packages/torch/distributed/c10d.py": "torch/distributed/c10d.py",
		"/usr/lib/python3.11/threading.py":                                      "python3.11/threading.py",
		"/home/me/train.py":                                                     "train.py",
		"<frozen runpy>":                                                        "<frozen runpy>",
	} {
		assert.Equal(t, want, pythonPlace(file))
	}
}

func TestDumpSignal(t *testing.T) {
	const goCatches, faulthandler, userSignal, both, openMPI = "7fffffff", "4e8", "200", "6e8", "4e0"
	for _, tc := range []struct {
		program       Program
		state, caught string
		want          syscall.Signal
	}{
		{Go, "S (sleeping)", goCatches, syscall.SIGQUIT},
		{Go, "R (running)", goCatches, syscall.SIGQUIT},
		{Go, "T (stopped)", goCatches, 0},
		{Go, "S (sleeping)", "0", 0}, // it would die silently
		{Python, "S (sleeping)", faulthandler, syscall.SIGABRT},
		{Python, "S (sleeping)", userSignal, syscall.SIGUSR1},
		{Python, "S (sleeping)", both, syscall.SIGABRT},
		{Python, "S (sleeping)", "0000000100000002", 0},
		{Python, "S (sleeping)", openMPI, 0}, // it prints C frames and aborts
		{Other, "S (sleeping)", goCatches, 0},
		{Go, "S (sleeping)", "", 0},
	} {
		sig, ok := dumpSignal("Name:\tx\nState:\t"+tc.state+"\nSigCgt:\t"+tc.caught+"\n", tc.program)
		assert.Equal(t, tc.want, sig, tc)
		assert.Equal(t, tc.want != 0, ok)
	}
}

func FuzzDumpFilter(f *testing.F) {
	for name, want := range dumps {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(string(text[:min(len(text), 600)]), uint8(want.program), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream string, program, size uint8) {
		a, whole := DumpFilter{Program: Program(program%2 + 1)}, DumpFilter{Program: Program(program%2 + 1)}
		shown := inPieces(&a, stream, int(size)+1)
		assert.LessOrEqual(t, len(shown), len(stream))
		if !a.Started() && a.position == after {
			assert.Equal(t, stream, shown)
		}
		_ = inPieces(&whole, stream, len(stream)+1)
		assert.Equal(t, whole.Stack(), a.Stack())
	})
}
