package interop

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// The static gorun finds gorun-gpu next to itself or in PATH, and reports how to get it otherwise.
func TestBenchOfTheStaticGorun(t *testing.T) {
	testneeds.Program(t, testneeds.LayerGCC, "gcc")
	dir, err := gpuPrograms()
	require.NoError(t, err)
	words := []string{"bench", "allreduce", "-np", "2", "-b", "8", "-e", "64K", "-f", "16", "--trials", "3", "--check"}
	said, err := exec.Command(filepath.Join(dir, "gorun"), words...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "# gorun bench allreduce v7: 2 ranks, back end cpu, float32, sum\n")
	require.Regexp(t, `(?m)^ +32768 +8192 +[0-9.]+ `, string(said))
	require.Contains(t, string(said), "# Out of bounds values : 0 OK\n")

	alone := filepath.Join(t.TempDir(), "gorun")
	copyProgram(t, filepath.Join(dir, "gorun"), alone)
	without := exec.Command(alone, words...)
	without.Env = []string{"PATH=/nowhere"}
	var stderr bytes.Buffer
	without.Stderr = &stderr
	stdout, err := without.Output()
	require.Error(t, err)
	require.Equal(t, 125, without.ProcessState.ExitCode())
	require.Empty(t, stdout)
	require.Contains(t, stderr.String(), "gorun-gpu is not in "+filepath.Dir(alone)+" or PATH\n")
	require.Contains(t, stderr.String(), "hint: run `make gorun-gpu` in gorun's sources, ")

	inPath := exec.Command(alone, words...)
	inPath.Env = []string{"PATH=" + dir}
	said, err = inPath.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "0 OK")
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	require.NoError(t, err)
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(target, source)
	require.NoError(t, err)
	require.NoError(t, target.Close())
}
