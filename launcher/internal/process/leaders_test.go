package process_test

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
)

// What a shell or a waiting wrapper runs leads as they do; the children of a program that works itself are helpers.
func TestLeaders(t *testing.T) {
	for command, want := range map[string][]string{
		`cat; exit`:                          {"cat", "sh"},
		`unshare -f cat; exit`:               {"cat", "sh", "unshare"},
		`timeout 1h cat; exit`:               {"sh", "timeout"},
		`sh -c 'timeout 1h cat; exit'; exit`: {"sh", "sh", "timeout"},
		`timeout 1h sh -c 'cat; exit'; exit`: {"sh", "timeout"},
	} {
		shell := exec.Command("/bin/sh", "-c", command)
		shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_, err := shell.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, shell.Start())
		require.Eventually(t, func() bool {
			members, err := process.Members([]int{shell.Process.Pid})
			all, leaders := members[shell.Process.Pid], namesOf(process.Leaders(members[shell.Process.Pid]))
			return err == nil && slices.Contains(namesOf(all), "cat") && slices.Equal(leaders, want)
		}, time.Minute, time.Millisecond, command)
		require.NoError(t, syscall.Kill(-shell.Process.Pid, syscall.SIGKILL))
		_ = shell.Wait()
	}
}

func namesOf(procs []process.Proc) (names []string) {
	for _, p := range procs {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
