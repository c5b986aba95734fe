package process

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

func identified(t *testing.T, path string) Owned {
	t.Helper()
	o, err := Identify(path)
	require.NoError(t, err)
	return o
}

func TestOwnedIsTheOneThatWasIdentified(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "private")
	notYet := identified(t, path)
	require.NoError(t, os.MkdirAll(filepath.Join(path, "below"), 0o700))
	first := identified(t, path)
	require.NoError(t, os.Rename(path, path+".moved")) // keeps the inode in use
	require.NoError(t, os.Mkdir(path, 0o700))
	first.Remove()
	assert.DirExists(t, path, "another one by now")
	notYet.Remove()
	assert.NoDirExists(t, path, "made since, and nothing is in it")

	require.NoError(t, os.Symlink(path+".moved", path))
	notYet.Remove()
	assert.FileExists(t, path, "no directory")
	first.Remove()
	assert.DirExists(t, path+".moved/below", "a link to it is not it")
	identified(t, path).Remove()
	assert.NoFileExists(t, path)
	assert.DirExists(t, path+".moved/below", "links are not followed")

	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	notYet.Remove()
	assert.FileExists(t, filepath.Join(path, "file"), "the job has put nothing into what was not identified")
	identified(t, path).Remove()
	assert.NoDirExists(t, path)
}

func TestOwnedOfOthersIsLeftAlone(t *testing.T) {
	testneeds.Root(t)
	path := privateDir(t)
	require.NoError(t, os.Chown(path, 12345, 12345))
	identified(t, path).Remove()
	assert.DirExists(t, path)
	_, _, err := OpenNew(path)
	assert.ErrorContains(t, err, "is not the directory that gorun made")
}

func TestOpenNewTakesAnEmptyPrivateDirectoryAlone(t *testing.T) {
	path := privateDir(t)
	_, _, err := OpenNew(path)
	require.ErrorContains(t, err, "is not the directory that gorun made")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	_, _, err = OpenNew(empty)
	require.ErrorContains(t, err, "is not the directory that gorun made")
	require.NoError(t, os.Chmod(empty, 0o700))
	root, owned, err := OpenNew(empty)
	require.NoError(t, err)
	defer root.Close()
	require.Equal(t, identified(t, empty), owned)
}

// The directory and its parent are repeatedly exchanged with other directories of this user and with links to them.
// Only identified files are ever removed.
func TestNothingElseIsRemovedWhilePathsChange(t *testing.T) {
	dir := t.TempDir()
	temp, name := filepath.Join(dir, "temp"), "gorun-private"
	canary := filepath.Join(dir, "canary")
	precious := filepath.Join(canary, name, "precious")
	require.NoError(t, os.MkdirAll(precious, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(precious, "file"), nil, 0o600))
	require.NoError(t, os.Mkdir(temp, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(canary, name), filepath.Join(dir, "inner")))
	require.NoError(t, os.Symlink(canary, filepath.Join(dir, "outer")))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			from := [][2]string{{temp, "outer"}, {filepath.Join(temp, name), "inner"}}[i%2]
			for range 2 { // there and back
				_ = unix.Renameat2(unix.AT_FDCWD, from[0], unix.AT_FDCWD, filepath.Join(dir, from[1]), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 2000 {
		path := filepath.Join(temp, name)
		if os.Mkdir(path, 0o700) != nil {
			continue
		}
		root, owned, err := OpenNew(path)
		if err != nil {
			Owned{Path: path}.Remove()
			continue
		}
		_ = root.WriteFile("file", nil, 0o600)
		_ = root.Close()
		owned.Remove()
	}
	close(stop)
	<-stopped
	assert.FileExists(t, findFile(t, dir, "precious"), "of another directory")
}

// findFile returns the file in the only directory of this name, wherever that directory is now.
func findFile(t *testing.T, dir, parent string) (path string) {
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "file" && filepath.Base(filepath.Dir(p)) == parent {
			path = p
		}
		return err
	}))
	return path
}
