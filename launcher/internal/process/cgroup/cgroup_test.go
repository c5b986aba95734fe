package cgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestOwnGroup(t *testing.T) {
	const (
		unified   = "0::/user.slice/user@1000.service/app.slice\n"
		hybrid    = "6:freezer:/jobs\n4:memory:/a\n1:name=systemd:/\n0::/\n"
		together  = "3:cpuset,freezer:/both\n"
		elsewhere = "0::/../sibling\n"
	)
	for _, row := range []struct {
		lines string
		v1    bool
		path  string
		ok    bool
	}{
		{unified, false, "/user.slice/user@1000.service/app.slice", true},
		{unified, true, "", false},
		{hybrid, false, "/", true},
		{hybrid, true, "/jobs", true},
		{together, true, "/both", true},
		{together, false, "", false},
		{elsewhere, false, "", false},
		{"", false, "", false},
		{"0:\n::", false, "", false},
	} {
		path, ok := ownGroup(row.lines, row.v1)
		assert.Equal(t, row.path, path, "%q, v1 %t", row.lines, row.v1)
		assert.Equal(t, row.ok, ok, "%q, v1 %t", row.lines, row.v1)
	}
}

// eachVersion runs a test with a new group of each version that this machine has.
func eachVersion(t *testing.T, test func(*testing.T, *Group)) {
	lines, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	tried := map[bool]bool{}
	for _, h := range hierarchies {
		parent, ok := h.parent(string(lines))
		if !ok || tried[h.v1] {
			continue
		}
		g, err := h.make(filepath.Join(parent, Prefix+"test-"+rand.Text()))
		if err != nil {
			continue
		}
		tried[h.v1] = true
		t.Run(map[bool]string{true: "v1", false: "v2"}[h.v1], func(t *testing.T) {
			t.Cleanup(func() {
				g.Kill(10 * time.Second)
				assert.NoError(t, g.Remove())
				g.Close()
			})
			test(t, g)
		})
	}
	if len(tried) == 0 {
		testneeds.Skip(t, testneeds.LayerCgroup, "no cgroup can be made")
	}
}

// inside starts a shell that is born into the group.
func inside(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if fd := g.CloneFD(); fd >= 0 {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, fd
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, g.Enter())
	defer g.Leave()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

// someLive waits until the group has as many processes.
func someLive(t *testing.T, g *Group, number int) []int {
	t.Helper()
	var pids []int
	require.Eventually(t, func() bool { pids = g.Procs(); return len(pids) >= number }, time.Minute, time.Millisecond)
	return pids
}

func TestWhatIsBornInsideStays(t *testing.T) {
	eachVersion(t, func(t *testing.T, g *Group) {
		cmd := inside(t, g, "setsid env -i sleep 600 & exec sleep 600")
		for _, pid := range someLive(t, g, 2) {
			assert.True(t, g.Has(pid))
		}
		assert.False(t, g.Has(os.Getpid()), "the thread that was inside has left")
		assert.ErrorIs(t, g.Remove(), ErrBusy)
		assert.True(t, g.Kill(time.Minute))
		assert.NoError(t, g.Remove(), "with the first process a zombie")
		assert.NoDirExists(t, g.Dir())
		assert.NoError(t, g.Remove(), "again")
		assert.Error(t, cmd.Wait())
	})
}

// forker starts a process every moment, each of which starts another one and ends.
const forker = `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); (sleep 600 & ) & done; wait`

func TestForkersAreKilled(t *testing.T) {
	for name, kill := range map[string]func(*Group){
		"at once": func(g *Group) { g.Kill(time.Minute) },
		"frozen": func(g *Group) {
			for end := time.Now().Add(time.Minute); len(g.Procs()) > 0 && time.Now().Before(end); {
				g.freezeAndKill()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachVersion(t, func(t *testing.T, g *Group) {
				inside(t, g, forker)
				someLive(t, g, 20)
				kill(g)
				assert.Empty(t, g.Procs())
				assert.NoError(t, g.Remove())
			})
		})
	}
}

func TestGroupsBelowAreRemovedToo(t *testing.T) {
	eachVersion(t, func(t *testing.T, g *Group) {
		below := filepath.Join(g.Dir(), Prefix+"inner", "deeper")
		require.NoError(t, os.MkdirAll(below, 0o755))
		cmd := inside(t, g, "exec sleep 600")
		require.NoError(t, os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0))
		assert.Equal(t, []int{cmd.Process.Pid}, g.Procs())
		assert.True(t, g.Has(cmd.Process.Pid))
		assert.ErrorIs(t, g.Remove(), ErrBusy)
		same := Open(g.Dir()) // as a guard does
		assert.True(t, same.Kill(time.Minute))
		assert.NoError(t, same.Remove())
		assert.NoDirExists(t, g.Dir())
	})
}

func TestNameOfAnotherGroupThatBeginsLikeOurs(t *testing.T) {
	eachVersion(t, func(t *testing.T, g *Group) {
		other := &Group{dir: g.Dir() + "x", v1: g.v1, fd: -1}
		cmd := inside(t, g, "exec sleep 600")
		assert.True(t, g.Has(cmd.Process.Pid))
		assert.False(t, other.Has(cmd.Process.Pid))
		assert.False(t, (&Group{dir: strings.TrimSuffix(g.Dir(), g.Dir()[len(g.Dir())-1:])}).Has(cmd.Process.Pid))
	})
}

func TestTidyRemovesWhatIsOldAndEmpty(t *testing.T) {
	eachVersion(t, func(t *testing.T, g *Group) {
		parent := filepath.Dir(g.Dir())
		old, young, strange := filepath.Join(parent, Prefix+rand.Text()), filepath.Join(parent, Prefix+rand.Text()),
			filepath.Join(parent, "x"+rand.Text())
		before := time.Now().Add(-time.Hour)
		for _, dir := range []string{old, young, strange} {
			require.NoError(t, os.Mkdir(dir, 0o755))
			defer os.Remove(dir)
		}
		for _, dir := range []string{old, strange, g.Dir()} {
			require.NoError(t, os.Chtimes(dir, before, before))
		}
		g.Tidy()
		assert.NoDirExists(t, old)
		assert.DirExists(t, young)
		assert.DirExists(t, strange)
		assert.DirExists(t, g.Dir(), "our own")
	})
}
