package interop

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// TestWheel installs gorun by pip and by uv from a folder with its wheel, runs it, and removes it again.
func TestWheel(t *testing.T) {
	t.Parallel()
	python := testneeds.Torch(t)
	root, dir := testneeds.Repository(t), t.TempDir()
	environ := os.Environ()
	home, index := filepath.Join(dir, "home"), filepath.Join(dir, "index")
	run := func(words ...string) string {
		t.Helper()
		command := exec.Command(words[0], words[1:]...)
		command.Dir = dir
		command.Env = environ
		said, err := command.CombinedOutput()
		require.NoErrorf(t, err, "%s\n%s", command, said)
		return string(said)
	}
	said := run(built("gorun"), "--version")
	run("make", "-C", root, "wheel", "ARCHS="+runtime.GOARCH, "PGO=off", "DIST="+index)
	again := filepath.Join(dir, "again")
	environ = append(environ, "HOME="+home, "UV_CACHE_DIR="+filepath.Join(dir, "uv"), "UV_PYTHON="+python,
		"SOURCE_DATE_EPOCH="+strings.TrimSpace(run("git", "-C", root, "log", "-1", "--format=%ct")))
	run(python, filepath.Join(root, "packaging/wheel/build.py"), strings.Fields(said)[1], again, runtime.GOARCH)
	require.Equal(t, wheelIn(t, index), wheelIn(t, again), "the same inputs make the same wheel")

	venv := filepath.Join(dir, "venv")
	run(python, "-m", "venv", venv)
	in := func(name string) string { return filepath.Join(venv, "bin", name) }
	run(in("pip"), "install", "--quiet", "--no-index", "--no-compile", "--find-links", index, "gorun-launcher")
	require.Equal(t, said, run(in("gorun"), "--version"))
	require.Equal(t, said, run(in("gorun-launcher"), "--version"))
	require.Equal(t, said, run(in("python"), "-m", "gorun", "--version"))
	require.Contains(t, run(in("gorun"), "-n", "2", "sh", "-c", "echo rank $RANK"), "rank 1\n")
	for _, file := range []string{"man/man1/gorun.1", "man/man7/gorun-hosts.7", "zsh/site-functions/_gorun"} {
		require.FileExists(t, filepath.Join(venv, "share", file))
	}
	run(in("pip"), "uninstall", "--quiet", "--yes", "gorun-launcher")
	require.NoError(t, filepath.WalkDir(venv, func(path string, entry fs.DirEntry, err error) error {
		require.Falsef(t, !entry.IsDir() && strings.Contains(path, "gorun"), "%s is left", path)
		return err
	}))

	uv := filepath.Join(filepath.Dir(python), "uv")
	from := []string{"--quiet", "--no-index", "--find-links", index}
	require.Contains(t, run(append([]string{uv, "tool", "run"}, append(from, "gorun-launcher", "-n", "2", "sh", "-c",
		"echo rank $RANK")...)...), "rank 1\n")
	run(append([]string{uv, "tool", "install"}, append(from, "gorun-launcher")...)...)
	local := filepath.Join(home, ".local/bin")
	gorun, torchrun := filepath.Join(local, "gorun"), filepath.Join(local, "torchrun")
	require.Equal(t, torchrun+" starts gorun\n", run(gorun, "install-names", "--torchrun"))
	require.Equal(t, said, run(torchrun, "--version"))
	run(gorun, "install-names", "--remove")
	run(uv, "tool", "uninstall", "--quiet", "gorun-launcher")
	left, err := os.ReadDir(local)
	require.NoError(t, err)
	require.Empty(t, left)
}

// wheelIn returns the hash of the only wheel in a directory.
func wheelIn(t *testing.T, dir string) [sha256.Size]byte {
	t.Helper()
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)
	wheel, err := os.ReadFile(wheels[0])
	require.NoError(t, err)
	return sha256.Sum256(wheel)
}
