package stacks

import (
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// pythonProgram waits below 10,000 frames and beside 500 threads, with names in each width of CPython's strings.
const pythonProgram = `
import asyncio, sys, threading
sys.setrecursionlimit(20_000)
threading.stack_size(64 << 10)
end = threading.Event()
for _ in range(500):
    threading.Thread(target=end.wait).start()
def dé(n):
    if n:
        return dé(n - 1)
    return list(map(lambda _: asyncio.run(ждать()),
                    [1]))
async def ждать():
    def 𐐨():
        # The table of lines skips this.

        sys.stdout.write("x" * 10); sys.stdout.flush(); sys.stdin.read()
    𐐨()
dé(9_000)
end.set()
`

// pythons are the interpreters to test, by default that in PATH.
func pythons() []string {
	if list := os.Getenv("GORUN_TEST_PYTHONS"); list != "" {
		return strings.Split(list, ":")
	}
	return []string{"python3"}
}

// startPython starts a program that reads its standard input in the end, and waits until it prints.
func startPython(t *testing.T, python, program string) *exec.Cmd {
	c := exec.Command(python, "-c", program)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.Stderr = os.Stderr
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill() // it may have been killed
		_ = c.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, 10))
	require.NoError(t, err)
	return c
}

// locate returns the interpreter of a process.
func locate(t *testing.T, pid int) *python {
	memory, err := os.Open(file(pid, "mem"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = memory.Close() })
	p := &python{memory: memory}
	version, err := p.locate(pid)
	require.NoError(t, err)
	p.learn(version)
	require.NoError(t, p.err)
	return p
}

func TestPythonFrames(t *testing.T) {
	testneeds.Program(t, testneeds.LayerPython, "python3")
	for _, name := range pythons() {
		c := startPython(t, name, pythonProgram)
		pid := c.Process.Pid
		var lines []string
		for len(lines) == 0 || lines[0] != "𐐨 (<string>:17)" || WaitChannel(pid) == "" {
			require.NoError(t, t.Context().Err(), lines)
			lines, _ = new(python).frames(pid)
		}
		require.True(t, ReadsInput(pid, pid), name)
		require.False(t, ReadsInput(pid, os.Getpid()), name)
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		again, err := new(python).frames(pid)
		require.NoError(t, err, name)
		require.Equal(t, lines, again, name)
		require.Equal(t, "ждать (<string>:18)", lines[1], name)
		require.Contains(t, strings.Join(lines, "\n"), "run_until_complete (python3.", name)
		require.Contains(t, lines[frames-1], "(<string>:", name)

		p := locate(t, pid)
		testCorruption(t, *p)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
		_, err = p.settle()
		require.ErrorIs(t, err, io.EOF, name)
		_, err = new(python).frames(pid)
		require.Error(t, err, name)
	}
}

// testCorruption reads memory of which some bytes are wrong.
func testCorruption(t *testing.T, p python) {
	random, real := testneeds.Rand(t), p.memory
	p.memory = memory(func(b []byte, at int64) (int, error) {
		n, err := real.ReadAt(b, at)
		if random.IntN(20) == 0 {
			b[random.IntN(len(b))] ^= byte(1 << random.IntN(8))
		}
		return n, err
	})
	for range testneeds.Count(100, 10_000) {
		_, _ = p.settle() // it ends
		p.err = nil
		p.learn("11")
	}
}

type memory func(b []byte, at int64) (int, error)

func (m memory) ReadAt(b []byte, at int64) (int, error) { return m(b, at) }

// A list that leads back to itself, and memory without any sense.
func TestPythonMemoryOfAnotherProgram(t *testing.T) {
	p := python{offsets: headers()["12"], memory: memory(func(b []byte, _ int64) (int, error) {
		for i := range b {
			b[i] = byte(i) & 1
		}
		return len(b), nil
	})}
	_, err := p.settle()
	require.ErrorIs(t, err, errTorn)
	p.err = nil
	p.learn("10")
	require.ErrorIs(t, p.err, errVersion)
	_, err = p.frames(os.Getpid())
	require.ErrorIs(t, err, errVersion)
}

// The main thread may wait for the one that matters.
func TestPythonFramesOfAThread(t *testing.T) {
	testneeds.Program(t, testneeds.LayerPython, "python3")
	for _, name := range pythons() {
		pid := startPython(t, name, `
import queue, sys, threading
def work():
    sys.stdout.write("x" * 10); sys.stdout.flush(); sys.stdin.read()
threading.Thread(target=queue.Queue().get, daemon=True).start()
thread = threading.Thread(target=work)
thread.start()
thread.join()
`).Process.Pid
		for text := ""; !strings.Contains(text, "\nin another thread: work (<string>:4)\n"); {
			require.NoError(t, t.Context().Err(), text)
			lines, _ := new(python).frames(pid)
			text = strings.Join(lines, "\n")
		}
	}
}

// Waits of PyTorch and mpi4py have no frames. Here they are reads.
func TestPythonAwaits(t *testing.T) {
	testneeds.Program(t, testneeds.LayerPython, "python3")
	for _, row := range []struct{ library, line, call string }{
		{"libtorch_cpu.so", "work.wait()", torchWait},
		{"mpi4py/MPI.so", "total = comm.Allreduce(-1)", "Allreduce (mpi4py)"},
		{"mpi4py/MPI.so", "total = comm.Allreduce(int(-1))", ""},
		{"mpi4py/MPI.so", "work.wait_for(-1)", ""},
	} {
		dir := t.TempDir()
		library := filepath.Join(dir, row.library)
		require.NoError(t, os.MkdirAll(filepath.Dir(library), 0o700))
		require.NoError(t, os.WriteFile(library, make([]byte, 8), 0o600))
		program := dir + "/train.py"
		require.NoError(t, os.WriteFile(program, []byte(`import mmap, sys
with open(sys.argv[1], "r+b") as f: library = mmap.mmap(f.fileno(), 0)
class Work: wait = wait_for = Allreduce = sys.stdin.read
def step(work, comm):
    sys.stdout.write("x" * 10); sys.stdout.flush()
    `+row.line+`
step(Work, Work)
`), 0o600))
		for _, name := range pythons() {
			pid := startPython(t, name, "import runpy, sys; sys.argv = ['', '"+library+"']; runpy.run_path('"+
				program+"')").Process.Pid
			var p python
			for lines := []string{""}; len(lines) == 0 || lines[0] != "step (train.py:6)"; {
				require.NoError(t, t.Context().Err(), lines)
				p = python{}
				lines, _ = p.frames(pid)
			}
			require.Equal(t, row.call, p.awaits(pid, strings.Contains(p.maps, "/mpi4py/")), name)
		}
	}
}

// While a process runs, some readings fail, but none shows what never was.
func TestPythonFramesOfABusyProcess(t *testing.T) {
	testneeds.Program(t, testneeds.LayerPython, "python3")
	c := startPython(t, "python3", `
def f(n):
    return n and f(n - 1)
print("x" * 10, flush=True)
while True:
    f(20)
`)
	p, seen := locate(t, c.Process.Pid), 0
	for range 50 {
		lines, _ := p.settle()
		for _, line := range lines {
			require.Contains(t, []string{
				"f (<string>:2)", "f (<string>:3)", "<module> (<string>:4)", "<module> (<string>:5)", "<module> (<string>:6)",
			}, line)
			seen++
		}
	}
	require.NotZero(t, seen)
}

// Python's own decoder of tables of lines agrees.
func TestLineOf(t *testing.T) {
	testneeds.Program(t, testneeds.LayerPython, "python3")
	for _, name := range pythons() {
		out, err := exec.Command(name, "-c", `
import argparse, types
def walk(code):
    print(code.co_firstlineno, code.co_linetable.hex(), *(p[0] or 0 for p in code.co_positions()))
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            walk(c)
walk(compile(open(argparse.__file__).read(), "x", "exec"))
`).Output()
		require.NoError(t, err)
		checked := 0
		for row := range strings.Lines(string(out)) {
			f := strings.Fields(row)
			table, err := hex.DecodeString(f[1])
			require.NoError(t, err)
			first, _ := strconv.Atoi(f[0])
			for i, want := range f[2:] {
				require.Equal(t, want, strconv.Itoa(lineOf(table, first, uint64(i))), "%s %s", name, row)
				checked++
			}
			require.Zero(t, lineOf(table, first, uint64(len(f))))
		}
		require.Greater(t, checked, 1000)
	}
}

// The program is no file: /dev/stdin would be gorun's own.
func TestSourceInAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("work.wait()\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p := python{source: "/proc/self/fd/" + strconv.Itoa(int(r.Fd())), at: 1}
	require.Empty(t, p.sourceLine(os.Getpid()))
}
