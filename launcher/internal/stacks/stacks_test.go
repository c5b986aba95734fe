package stacks

import (
	"os"
	"os/exec"
	"path/filepath"
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

func TestPySpyThatMayNotTrace(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, obstacle := PySpy(t.Context(), 1)
	require.Empty(t, obstacle, "it is not installed")
	script := "#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "py-spy"), []byte(script), 0o700))
	_, obstacle = PySpy(t.Context(), 1)
	require.Contains(t, obstacle, "allow py-spy to trace processes (")
	const container = "allow py-spy to trace processes (in containers `docker run --cap-add SYS_PTRACE`)"
	require.Equal(t, container, pySpyObstacle("Permission Denied: Try", "0"))
	require.Equal(t, container, pySpyObstacle("Permission Denied: Try", ""))
	require.Equal(t, "allow py-spy to trace processes (`sudo sysctl kernel.yama.ptrace_scope=0`)",
		pySpyObstacle("Permission Denied: Try\nmore", "1"))
	require.Equal(t, "run `py-spy dump` yourself, as it failed (no python process),",
		pySpyObstacle("Error: no python process", "1"))
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
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	require.Equal(t, Other, ProgramOf(cat.Process.Pid))
	require.NoError(t, in.Close())
	require.NoError(t, cat.Wait())
	require.Equal(t, Other, ProgramOf(cat.Process.Pid), "the process is gone")
}
