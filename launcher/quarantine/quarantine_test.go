package quarantine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func fail(t *testing.T, file, host string, after time.Duration) bool {
	h, err := Fail(file, host, "its connection ended", start.Add(after))
	require.NoError(t, err)
	return !h.Until.IsZero()
}

func read(t *testing.T, file string, after time.Duration) (list []Host) {
	list, err := Read(file, start.Add(after))
	require.NoError(t, err)
	return list
}

func TestQuarantine(t *testing.T) {
	file := Path("", t.TempDir())
	require.Empty(t, read(t, file, 0))
	require.False(t, fail(t, file, "n2", 0))
	require.False(t, fail(t, file, "n2", 30*time.Minute))
	require.False(t, fail(t, file, "n1", 30*time.Minute))
	require.False(t, fail(t, file, "n2", time.Hour), "the first one is too old")
	require.True(t, fail(t, file, "n2", 80*time.Minute))
	list := read(t, file, 80*time.Minute)
	require.Equal(t, []string{"n1", "n2"}, []string{list[0].Name, list[1].Name})
	require.Equal(t, start.Add(80*time.Minute+Duration), list[1].Until.UTC())
	require.Contains(t, list[1].String(), "(`gorun hosts quarantine lift n2` ends it): failed 3 times within 1 h, the "+
		"last time: its connection ended")
	require.Empty(t, read(t, file, 140*time.Minute), "over, and nothing is left of it")
	require.False(t, fail(t, file, "n2", 140*time.Minute))

	require.NoError(t, Add(file, []string{"n3"}, "cables", start.Add(9*time.Hour), start))
	require.Equal(t, "cables", read(t, file, 8*time.Hour)[0].Reason)
	for _, known := range []bool{true, false} {
		unknown, err := Lift(file, []string{"n3"}, start)
		require.NoError(t, err)
		require.Equal(t, known, unknown == nil)
	}
}

func TestPath(t *testing.T) {
	require.Equal(t, "/home/a/.local/state/gorun/hosts.json", Path("s", "/home/a"))
	require.Empty(t, Path("", ""))
}

func TestDamagedFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.json")
	for _, text := range []string{"", "[{", `{"a":1}`, `[{"host":3}]`, "null", strings.Repeat("[", maxSize), "\x00\xff"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.Empty(t, read(t, file, 0))
		require.False(t, fail(t, file, "n", 0))
		require.Len(t, read(t, file, 0), 1)
	}
	many := strings.Repeat(`{"host":"n","until":"2026-11-29T00:00:00Z"},`, maxHosts-1)
	require.NoError(t, os.WriteFile(file, []byte("["+many+"{}]"), 0o600))
	require.NoError(t, Add(file, []string{"new"}, strings.Repeat("x", 9*maxText), start.Add(time.Hour), start))
	list := read(t, file, 0)
	require.Len(t, list, maxHosts)
	require.Equal(t, strings.Repeat("x", maxText), list[maxHosts-1].Reason)
	require.ErrorContains(t, Add(file, []string{"new"}, "", start.AddDate(9000, 0, 0), start), "year", "JSON has no such")
	require.ErrorContains(t, Add(file, []string{"n2"}, "", start.Add(time.Hour), start), "it has 1000 hosts already")
	_, err := Lift(file, []string{"new"}, start)
	require.NoError(t, err)
	three := []string{"n", "n2", "n3"}
	require.ErrorContains(t, Add(file, three, "", start.Add(time.Hour), start), "it has 999 hosts already")
	require.Equal(t, list[:maxHosts-1], read(t, file, 0), "all or none")
	require.NoError(t, Add(file, []string{"new", "new"}, list[maxHosts-1].Reason, start.Add(time.Hour), start))
	require.Equal(t, list, read(t, file, 0))
	require.False(t, fail(t, file, "n3", 0), "which replaces the first")
	now := read(t, file, 0)
	require.Len(t, now, maxHosts)
	require.True(t, slices.ContainsFunc(now, func(h Host) bool { return h.Name == "n3" }))
	_, err = Fail("/proc/self/gorun/hosts.json", "n", "", start)
	require.Error(t, err)
}

// A write that fails, as on a full disk, leaves the file as it was.
func TestTheFileIsReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.json")
	require.NoError(t, Add(file, []string{"n1"}, "cables", start.Add(time.Hour), start))
	old, err := os.Open(file)
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, os.Chmod(file, 0o664))
	require.NoError(t, Add(file, []string{"n2"}, "cables", start.Add(time.Hour), start))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o664), info.Mode())
	require.Len(t, decode(old, start), 1)
	require.Len(t, read(t, file, 0), 2)
	require.False(t, isAt(old, file))

	require.NoError(t, os.MkdirAll(filepath.Join(file+".new", "in the way"), 0o700))
	require.Error(t, Add(file, []string{"n3"}, "cables", start.Add(time.Hour), start))
	require.Len(t, read(t, file, 0), 2)
}

// Each process opens the file by itself: so does each call.
func TestFailuresAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.json")
	var busy sync.WaitGroup
	for i := range 8 {
		busy.Go(func() { _, _ = Fail(file, fmt.Sprint("n", i), "lost", start) })
	}
	busy.Wait()
	require.Len(t, read(t, file, 0), 8)
	f, err := open(file, os.O_RDWR, unix.LOCK_EX)
	require.NoError(t, err)
	defer f.Close()
	_, err = Fail(file, "n", "", start)
	require.ErrorContains(t, err, "lock ", "a holder that never goes on delays nobody for long")
}
