package stacks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMainThreadOfPySpy(t *testing.T) {
	text := `Process 4711: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 4720 (idle): "Thread-1"
    wait (threading.py:331)
Thread 4711 (active): "MainThread"
    all_reduce (distributed_c10d.py:2501)
    step (train.py:12)
    <module> (train.py:30)
Thread 4730 (idle): "pin"
    poll (connection.py:257)
`
	require.Equal(t, []string{"all_reduce (distributed_c10d.py:2501)", "step (train.py:12)", "<module> (train.py:30)"},
		mainThread(text))
}

func TestAllowing(t *testing.T) {
	const container = "allow gorun to read ranks (in containers `docker run --cap-add SYS_PTRACE`)"
	for _, c := range [][4]string{
		{"1000", "1000", "", container},
		{"1000", "0", "0", container},
		{"1000", "1001", "1", "run gorun as root or as the rank's user 1000"},
		{"1000", "1000", "1", "allow gorun to read ranks (`sudo sysctl kernel.yama.ptrace_scope=0`)"},
		{"0", "0", "3", "boot with `sysctl.kernel.yama.ptrace_scope=0`, as it is 3 until then,"},
	} {
		require.Equal(t, c[3], allowing(c[0], c[1], c[2]), c)
	}
}

// tool makes a script the only command in PATH.
func tool(t *testing.T, name, script string) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700))
}

// sleeper starts a program that sleeps until the end of the test.
func sleeper(t *testing.T) int {
	cat := exec.Command("/bin/cat")
	in, err := cat.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cat.Wait())
	})
	return cat.Process.Pid
}

func TestNativeStack(t *testing.T) {
	pid := sleeper(t)
	tool(t, "other", "")
	lines, obstacle := NativeStack(t.Context(), pid)
	require.Empty(t, lines)
	require.Contains(t, obstacle, "`sudo apt-get install elfutils`")
	tool(t, "eu-stack", `echo "TID 7:
#0  0x00007fe901bd42ad poll - /usr/lib/libc.so.6
    ../sysdeps/poll.c:26:10
#1  0x00007fe901bd42ad MPI_Allreduce - /usr/lib/libmpi.so.40
#2  0x00005589b3d861c3 ns::Grid<std::vector<int, std::allocator<int> > >::step(int, char const*) - /home/me/my heat
    /home/me/heat.cc:4:42
#3  0x00005589b3d861d6 main - /home/me/my heat
#4  0x00007fe901b03305 __libc_start_main@@GLIBC_2.34 - /usr/lib/libc.so.6"`)
	lines, _ = NativeStack(t.Context(), pid)
	require.Equal(t, []string{"MPI_Allreduce (libmpi.so.40)", "ns::Grid::step (heat.cc:4)", "main (my heat)"}, lines)
	tool(t, "eu-stack", `echo "TID 8:
#0  0x00007fe901bd42ad __GI___clock_nanosleep - /usr/lib/libc.so.6
    ../sysdeps/nanosleep.c:26:10
#1  0x00007fe901bd42ad __sleep - /usr/lib/libc.so.6
#2  0x00005589b3d861d5 - /home/me/heat
#3  0x00005589b3d861d6 main - /home/me/heat"`)
	lines, _ = NativeStack(t.Context(), pid)
	require.Equal(t, []string{"sleep (libc.so.6)", "main (heat)"}, lines)
	tool(t, "eu-stack", "echo 'dwfl_linux_proc_attach: Operation not permitted' >&2; exit 1")
	_, obstacle = NativeStack(t.Context(), pid)
	require.Contains(t, obstacle, "allow gorun to read ranks")
}

func TestUnnamedThreadOfPySpy(t *testing.T) {
	require.Equal(t, []string{"nap (slp.py:3)", "<module> (slp.py:4)"}, mainThread(`Process 21036: python3 slp.py
Python v3.10.13 (/usr/bin/python3.10)

Thread 0x7F227EA8EB80 (active)
    nap (slp.py:3)
    <module> (slp.py:4)
`))
}

func TestMPI4PyCall(t *testing.T) {
	require.Equal(t, "allreduce (mpi4py)", mpi4pyCall(`TID 7:
#6  0x00007f0be1a7005c __pyx_f_6mpi4py_3MPI_PyMPI_Commctx_INTRA.constprop.0 - /usr/lib/mpi4py/MPI.so
#7  0x00007f0be1a8a7ba __pyx_pw_6mpi4py_3MPI_4Comm_293allreduce - /usr/lib/mpi4py/MPI.so
#8  0x00007f0be2558ba3 _PyObject_VectorcallTstate - /usr/lib/libpython3.11.so.1.0`))
	require.Empty(t, mpi4pyCall("#0  0x00007f0be1a7005c poll - /usr/lib/libc.so.6"))
}

// Of a Python that gorun does not know, py-spy shows the frames.
func TestPythonStackByPySpy(t *testing.T) {
	pid := sleeper(t)
	tool(t, "other", "")
	_, obstacle := PythonStack(t.Context(), pid)
	require.Equal(t, "run `pip install py-spy` to see Python's frames", obstacle)
	for text, want := range map[string]string{
		"Permission Denied: Try":   "allow gorun to read ranks",
		"Error: no python process": "run `py-spy dump` yourself, as it failed (no python process), to see Python's frames",
	} {
		tool(t, "py-spy", "echo '"+text+"' >&2; exit 1")
		_, obstacle = PythonStack(t.Context(), pid)
		require.Contains(t, obstacle, want)
	}
	tool(t, "py-spy", "echo 'Thread 1: \"MainThread\"'; echo '    <module> (a.py:1)'")
	lines, obstacle := PythonStack(t.Context(), pid)
	require.Equal(t, []string{"<module> (a.py:1)"}, lines)
	require.Empty(t, obstacle)
}

// A debugger that is killed in the act leaves the process running.
func TestKilledDebugger(t *testing.T) {
	pid := sleeper(t)
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	tool(t, "eu-stack", "kill -STOP $6; echo >"+fifo+"; read forever <"+fifo)
	go func() {
		_, _ = os.ReadFile(fifo) // the process is being stopped
		cancel()
	}()
	lines, _ := NativeStack(ctx, pid)
	require.Empty(t, lines)
	for status := "T"; status == "T"; {
		require.NoError(t, t.Context().Err(), "it remains stopped")
		text, err := os.ReadFile(file(pid, "status"))
		require.NoError(t, err)
		status = statusField(string(text), "State")
	}
}

func TestWaitChannelOfASleepingProcess(t *testing.T) {
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	for WaitChannel(cat.Process.Pid) == "" {
		require.NoError(t, t.Context().Err(), "it never sleeps")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cat.Wait())
	require.Empty(t, WaitChannel(cat.Process.Pid), "the process is gone")
	require.Empty(t, Kernel(cat.Process.Pid))
}

func TestProgramOf(t *testing.T) {
	require.Equal(t, Go, ProgramOf(os.Getpid()))
	require.Equal(t, Other, ProgramOf(sleeper(t)))
	require.Equal(t, Other, ProgramOf(1<<30), "there is no such process")
}
