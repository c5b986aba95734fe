package stacks

import (
	"os"
	"os/exec"
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
	require.Empty(t, mainThread("Error: Permission denied"))
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
