package interop

import (
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
	build, with := []string{python, filepath.Join(root, "packaging/wheel/build.py")}, "WHEEL_GPU="
	if testneeds.Soak() {
		build, with = append(build, "--gpu", filepath.Join(root, "build")), "WHEEL_GPU=static-gpu"
	}
	run("make", "-C", root, "wheel", "ARCHS="+runtime.GOARCH, "PGO=off", "DIST="+index, with)
	const again = "again" // in dir
	environ = append(environ, "HOME="+home, "UV_CACHE_DIR="+filepath.Join(dir, "uv"), "UV_PYTHON="+python,
		"UV_NO_INDEX=1", "UV_FIND_LINKS="+index, "PIP_NO_INDEX=1", "PIP_FIND_LINKS="+index,
		"SOURCE_DATE_EPOCH="+strings.TrimSpace(run("git", "-C", root, "log", "-1", "--format=%ct")))
	version := strings.Fields(said)[1]
	run(append(build, version, again, runtime.GOARCH)...)
	run("diff", "-r", index, again) // the same inputs make the same wheels
	newer := filepath.Join(dir, "gorun-gpu-linux-"+runtime.GOARCH)
	run("sh", "-c", `printf '\0GLIBC_2.2.5\0GLIBC_2.34\0' >"$0"`, newer)
	require.Contains(t, run("sh", "-c", `! "$0" "$@"`, python, build[1], "--gpu", dir, version, again, runtime.GOARCH),
		newer+" needs glibc 2.34")

	venv := filepath.Join(dir, "venv")
	run(python, "-m", "venv", "--without-pip", venv) // a pip of its own takes three seconds
	pip := []string{python, "-m", "pip", "--python", venv}
	in := func(name string) string { return filepath.Join(venv, "bin", name) }
	run(append(pip, "install", "--no-compile", "gorun-launcher")...)
	require.Equal(t, said, run(in("gorun"), "--version"))
	require.Equal(t, said, run(in("python"), "-m", "gorun", "--version"))
	require.Contains(t, run(in("gorun"), "-n", "2", "sh", "-c", "echo rank $RANK"), "rank 1\n")
	sources := filepath.Join(root, "packaging/wheel")
	script := filepath.Join(sources, "test_gorun.py")
	run(in("python"), script)
	run("sh", "-c", `PYTHONPATH=$("$0" -c 'import cloudpickle as c, pathlib; print(pathlib.Path(c.__file__).parents[1])') \
		exec "$@"`, python, in("python"), script, "Launch.test_traceback_has_lines",
		"Launch.test_torchrunx")
	run(python, filepath.Join(sources, "reference.py"), "--check")
	run(python, "-m", "mypy", "--strict", "--cache-dir=/dev/null", filepath.Join(sources, "gorun"))
	if testneeds.Soak() {
		require.NotRegexp(t, `GLIBC_2\.(1[89]|[2-9]\d)`, run("objdump", "-T", in("gorun-gpu")))
		require.Contains(t, run(in("gorun"), "bench", "allreduce", "-n", "2", "-e", "1K", "--check"), "0 OK")
	}
	for _, file := range []string{"man/man7/gorun-hosts.7", "zsh/site-functions/_gorun"} {
		require.FileExists(t, filepath.Join(venv, "share", file))
	}
	run(append(pip, "uninstall", "--yes", "gorun-launcher")...)
	require.NoError(t, filepath.WalkDir(venv, func(path string, entry fs.DirEntry, err error) error {
		require.Falsef(t, !entry.IsDir() && strings.Contains(path, "gorun"), "%s is left", path)
		return err
	}))

	uv := filepath.Join(filepath.Dir(python), "uv")
	require.Contains(t, run(uv, "tool", "run", "gorun-launcher", "--version"), said)
	run(uv, "tool", "install", "gorun-launcher")
	local := filepath.Join(home, ".local/bin")
	gorun, torchrun := filepath.Join(local, "gorun"), filepath.Join(local, "torchrun")
	require.Equal(t, torchrun+" starts gorun\n", run(gorun, "install-names", "--torchrun"))
	require.Equal(t, said, run(torchrun, "--version"))
	run(gorun, "install-names", "--remove")
	run(uv, "tool", "uninstall", "gorun-launcher")
	left, err := os.ReadDir(local)
	require.NoError(t, err)
	require.Empty(t, left)
}
