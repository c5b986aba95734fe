package process_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
)

func TestMembersOfASession(t *testing.T) {
	shell := exec.Command("/bin/sh", "-c", "cat; exit 3")
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := shell.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	sid := shell.Process.Pid
	var members []process.Proc
	for len(members) < 2 || members[1].Name != "cat" {
		require.NoError(t, t.Context().Err(), "cat never starts: %v", members)
		all, err := process.Members([]int{sid})
		require.NoError(t, err)
		members = all[sid]
	}
	assert.Equal(t, sid, members[0].PID)
	cat := members[1]
	assert.Equal(t, sid, cat.PPID)
	assert.True(t, cat.Alive())

	require.NoError(t, cat.PreventCore())
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(cat.PID) + "/limits")
	require.NoError(t, err)
	assert.Regexp(t, regexp.MustCompile(`(?m)^Max core file size +[01] `), string(limits))

	require.NoError(t, in.Close())
	assert.Equal(t, 3, exitCode(t, shell.Wait()))
	assert.False(t, cat.Alive())
	assert.Error(t, cat.SignalBusy(syscall.SIGTERM), "it is gone")
	assert.Error(t, cat.PreventCore())
	all, err := process.Members([]int{sid})
	require.NoError(t, err)
	assert.Empty(t, all[sid])
}

func TestSignalToAProcessThatSleeps(t *testing.T) {
	cat := exec.Command("cat")
	_, err := cat.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	p, err := process.Describe(cat.Process.Pid)
	require.NoError(t, err)
	other := p
	other.Start++
	require.ErrorIs(t, other.SignalBusy(syscall.SIGTERM), os.ErrProcessDone, "another process had this pid")
	require.ErrorIs(t, other.Signal(syscall.SIGTERM), os.ErrProcessDone)
	require.NoError(t, p.Signal(syscall.SIGCONT), "it is running anyway")
	require.NoError(t, p.SignalBusy(syscall.SIGTERM))
	_ = cat.Wait()
	status, ok := cat.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}

func TestWhoeverAsksIsBusy(t *testing.T) {
	p, err := process.Describe(os.Getpid())
	require.NoError(t, err)
	assert.True(t, p.Busy())
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.ExitCode()
}
