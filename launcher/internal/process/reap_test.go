package process

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// adopterRole is a launcher that adopts orphans. It is a separate process because the test process must not adopt
// any. Its known child leaves a daemon with neither session nor marker of the job. The role prints its observations.
func adopterRole(token string, args []string) {
	if len(args) > 0 { // a shell's `sleep 100 & exec gorun …`
		mustStart(command("sleeper", token))
		panic(syscall.Exec("/proc/self/exe", []string{"test", roleArg, "adopter", token}, os.Environ()))
	}
	before := Adopts()
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	fmt.Println("adopts:", before, Adopts())

	between := inSession(command("between", token))
	between.Env = []string{}
	known := mustStart(between).Process.Pid
	_ = awaitDeath(known)
	target := Target{Known: func(pid int) bool { return pid == known }}
	found, err := target.Find()
	fmt.Println("orphans:", len(found), err)
	fmt.Println("left:", len(target.KillAll(gone)))
	fmt.Println("reaped:", ReapOrphans(target.Known), ReapOrphans(target.Known))
	fmt.Println("children:", HasChildren(), "known one's status:", between.Wait())
	fmt.Println("children:", HasChildren())
}

// awaitDeath waits for a child without reaping it. Its state in /proc is not enough: a zombie with other threads that
// are still ending has not released its children yet.
func awaitDeath(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}

func awaitState(pid int, state byte) error {
	for {
		if p, err := Describe(pid); err != nil || p.State == state {
			return err
		}
		_, _ = unix.Poll(nil, 1)
	}
}

func TestSubreaperEndsWhatHidesFromItsJob(t *testing.T) {
	s := newScene(t)
	out, err := inSession(command("adopter", s.token)).Output()
	require.NoError(t, err)
	assert.Equal(t, `adopts: false true
orphans: 1 <nil>
left: 0
reaped: 1 0
children: true known one's status: <nil>
children: false
`, string(out))
	s.eventuallyGone()
}

func TestInheritedChildrenForbidAdoption(t *testing.T) {
	s := newScene(t)
	out, err := inSession(command("adopter", s.token, "exec")).Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "adopts: false false\n")
}

func TestHasChildrenSeesTheUnreaped(t *testing.T) {
	s := newScene(t)
	require.False(t, HasChildren())
	cmd := inSession(command("sleeper", s.token))
	require.NoError(t, cmd.Start())
	assert.True(t, HasChildren(), "alive")
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, awaitDeath(cmd.Process.Pid))
	assert.True(t, HasChildren(), "dead")
	assert.Zero(t, ReapOrphans(func(pid int) bool { return pid == cmd.Process.Pid }), "others wait for it")
	assert.Error(t, cmd.Wait(), "killed: its status is still there")
	assert.False(t, HasChildren())
}
