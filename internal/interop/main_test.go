package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// roleVariable makes this test binary a rank with a role of roles.
const roleVariable = "INTEROP_ROLE"

// bin holds the programs that TestMain built: gorun, torchrun (the same file) and hello.
var bin string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	if os.Getenv("RANK") != "" { // a rank that ran the tests would start more ranks that do
		fmt.Fprintln(os.Stderr, "interop: a rank without", roleVariable)
		os.Exit(97)
	}
	os.Exit(testAll(m))
}

func testAll(m *testing.M) int {
	if err := buildAll(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	defer os.RemoveAll(bin)
	defer slurm.Close()
	return m.Run()
}

// buildAll builds the static gorun that users get, and the examples that tests run.
func buildAll() error {
	var err error
	if bin, err = os.MkdirTemp("", "gorun-interop-"); err != nil {
		return err
	}
	if err := os.Chmod(bin, 0o755); err != nil { // other users run it too
		return err
	}
	if err := os.Setenv("XDG_STATE_HOME", built("state")); err != nil { // records of jobs
		return err
	}
	for _, build := range []*exec.Cmd{
		exec.Command("make", "-C", "../..", "gorun", "BIN="+bin),
		exec.Command("go", "build", "-o", built("hello"), "gorun/examples/hello"),
	} {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", build, err, said)
		}
	}
	return nil
}

// built returns the path of a program that TestMain built.
func built(name string) string { return filepath.Join(bin, name) }

// self is this test binary, as a rank with roleVariable.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// example returns the path of a file below examples/.
func example(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testneeds.Repository(t), "examples", name)
}

// standOnce compiles the program that waits until it is killed, the cheapest possible rank.
var standOnce = sync.OnceValues(func() (string, error) {
	source, err := filepath.Abs(filepath.Join("..", "bench", "csrc", "stand.c"))
	if err != nil {
		return "", err
	}
	path := built("stand")
	said, err := exec.Command("gcc", "-O2", "-static", "-o", path, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", source, err, said)
	}
	return path, nil
})

// stand returns the path of that program.
func stand(t *testing.T) string {
	t.Helper()
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	path, err := standOnce()
	require.NoError(t, err)
	return path
}
