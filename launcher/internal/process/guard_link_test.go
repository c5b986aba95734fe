package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A stopped launcher does not see that its link is closed. Its guard does, for any kind of link, and ends the
// launcher and the job. Until then it leaves both alone.
func TestGuardEndsTheJobOfAStoppedLauncherWithItsLink(t *testing.T) {
	s := newScene(t)
	var links []*os.File
	var launchers, guards []int
	var dirs []string
	for _, shapes := range [][]string{{"linked"}, {"linked", "prepare"}, {"linked", "replace"}} {
		for _, open := range []func(*testing.T) (ours, theirs *os.File){pipeLink, socketLink} {
			ours, theirs := open(t)
			dir := privateDir(t)
			launcher, guard := s.launchLinked(theirs, "", newID(t), dir, append(shapes, "unmarked")...)
			require.NoError(t, theirs.Close())
			require.NoError(t, launcher.Process.Signal(unix.SIGSTOP))
			links, launchers = append(links, ours), append(launchers, launcher.Process.Pid)
			guards, dirs = append(guards, guard), append(dirs, dir)
		}
	}
	s.eventuallyCount(3 * len(launchers))
	for i, launcher := range launchers {
		require.True(t, alive(launcher), "stopped, and its link is there")
		require.NoError(t, links[i].Close())
	}
	s.eventuallyGone(guards...)
	for _, dir := range dirs {
		assert.NoDirExists(t, dir)
	}
}

func pipeLink(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	require.NoError(t, err)
	return ours, theirs
}

func socketLink(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
}
