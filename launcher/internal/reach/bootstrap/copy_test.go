package bootstrap

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// tree creates a directory with a program, data, links and odd names.
func tree(t *testing.T) string {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	write("trainer", "#!/bin/sh\n", 0o755)
	write("data/a", strings.Repeat("a", 1000), 0o640)
	write("data/-x it's $(b)\n!", "odd", 0o600)
	write("data/"+strings.Repeat("long/", 40)+"end", "deep", 0o600)
	write("data/sealed/c", "", 0o400)
	require.NoError(t, os.Chmod(filepath.Join(dir, "data/sealed"), 0o500))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "data/link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "data/pipe"), 0o600))
	require.NoError(t, os.Symlink("trainer", filepath.Join(dir, "latest")))
	return dir
}

func TestCopy(t *testing.T) {
	dir := tree(t)
	b, err := ReadBundle(dir, []string{"./trainer", "data", "latest", "trainer", "/bin/true"})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "data/pipe")}, b.Skipped)
	shells(t, func(t *testing.T, shell string) {
		m := newMachine(t, shell)
		c, err := Copy(deadline(t), m, b, time.Minute)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(c.Path, m.home+"/tmp/gorun-job-"), c.Path)
		info, err := os.Stat(c.Path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		for name, text := range map[string]string{
			"trainer": "#!/bin/sh\n", "latest": "#!/bin/sh\n", "data/a": strings.Repeat("a", 1000),
			"data/link":            strings.Repeat("a", 1000),
			"data/-x it's $(b)\n!": "odd", "data/" + strings.Repeat("long/", 40) + "end": "deep", "data/sealed/c": "",
		} {
			there, ok := c.PathOf(name)
			require.True(t, ok, name)
			got, err := os.ReadFile(there)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
		there, ok := c.PathOf("/bin/true")
		require.True(t, ok)
		require.Equal(t, filepath.Join(c.Path, "true"), there)
		info, err = os.Stat(filepath.Join(c.Path, "trainer"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
		require.NoFileExists(t, filepath.Join(c.Path, lastName))
		_, ok = c.PathOf("other")
		require.False(t, ok)
		require.NoError(t, c.Remove(deadline(t)))
		require.NoDirExists(t, c.Path)
	})
}

func TestWholeWorkingDirectory(t *testing.T) {
	dir := tree(t)
	b, err := ReadBundle(dir, []string{"."})
	require.NoError(t, err)
	c, err := Copy(deadline(t), newMachine(t, "sh"), b, time.Minute)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(c.Path, "trainer"))
	there, ok := c.PathOf("./trainer")
	require.True(t, ok)
	require.Equal(t, filepath.Join(c.Path, "trainer"), there)
	require.NoError(t, c.Remove(deadline(t)))
}

// The parent process may have ended: the end of the connection is enough.
func TestCopiesGoWithTheConnection(t *testing.T) {
	b, err := ReadBundle(tree(t), []string{"data"})
	require.NoError(t, err)
	m := newMachine(t, "sh")
	c, err := Copy(deadline(t), m, b, time.Minute)
	require.NoError(t, err)
	require.NoError(t, c.keeper.Close())
	m.settled()
	require.NoDirExists(t, c.Path)
}

func TestCopiesThatFail(t *testing.T) {
	dir := tree(t)
	_, err := ReadBundle(dir, []string{"none"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "true"), nil, 0o700))
	_, err = ReadBundle(dir, []string{"true", "/bin/true"})
	require.ErrorContains(t, err, "would both be true on the hosts")

	b, err := ReadBundle(dir, []string{"data", "trainer"})
	require.NoError(t, err)
	for _, cut := range []int{1, 512, 1024, 2048, int(b.size) - 2048, int(b.size) - 1024 - 512} {
		m := newMachine(t, "sh")
		m.cut = cut
		_, err = Copy(deadline(t), m, b, time.Minute)
		hasStep(t, err, remote.StepCopy, "cannot copy the files of --copy")
		m.settled()
		left, _ := os.ReadDir(m.home + "/tmp")
		require.Empty(t, left, cut)
	}

	require.NoError(t, os.Truncate(filepath.Join(dir, "data/a"), 10))
	m := newMachine(t, "sh")
	_, err = Copy(deadline(t), m, b, time.Minute)
	hasStep(t, err, remote.StepCopy, "data/a was changed while it was being sent")
	m.settled()
}

func TestWhereCopiesGo(t *testing.T) {
	big := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(big, "big"), make([]byte, 1<<20), 0o600))
	b, err := ReadBundle(big, []string{"big"})
	require.NoError(t, err)
	for _, test := range []struct{ name, setup, place string }{
		{"/tmp", "true", "/tmp/"},
		{"/tmp is small", "mount -o remount,size=64k /tmp", "/mnt/.cache/"},
		{"/tmp is somebody's", "chmod 777 /tmp && chown 12345 /tmp", "/mnt/.cache/"},
		{"only memory", "mount -o remount,noexec /tmp && mount -o remount,ro /mnt", "/dev/shm/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Copy(deadline(t), apartFrom(t, test.setup), b, time.Minute)
			require.NoError(t, err)
			require.Contains(t, c.Path, test.place+"gorun-job-")
			require.NoError(t, c.Remove(context.Background()))
		})
	}
	_, err = Copy(deadline(t), apartFrom(t,
		"mount -o remount,size=64k /tmp && mount -o remount,ro /mnt && mount -o remount,noexec /dev/shm"), b, time.Minute)
	hasStep(t, err, remote.StepCopy, "there is no room for 1", "Read-only", "noexec")
}

// reader is a host that says when it has read what was sent, or does not answer.
type reader struct {
	saying
	silent              bool
	unread, most, asked int
}

func (r *reader) Write(b []byte) (int, error) {
	r.unread += len(b)
	r.most = max(r.most, r.unread)
	return len(b), nil
}

func (r *reader) Near() bool { return true }

func (r *reader) Settle() bool {
	r.asked, r.unread = r.asked+1, 0
	return !r.silent
}

func TestHostIsNotSentMoreThanItReads(t *testing.T) {
	const size = 20 * nearChunk
	path := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	for _, test := range []struct {
		silent      bool
		most, asked int
	}{{false, nearChunk, 20}, {true, size - nearChunk, 1}} {
		host := &reader{silent: test.silent}
		s := &session{process: host, report: func(remote.Progress) {}}
		require.NoError(t, s.sendParcel(parcel{path: path, size: size}, size))
		require.Equal(t, test.most, host.most)
		require.Equal(t, test.asked, host.asked)
	}
}
