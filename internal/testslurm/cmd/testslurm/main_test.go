package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestCommand(t *testing.T) {
	testneeds.Slurm(t)
	program := filepath.Join(t.TempDir(), "testslurm")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.CommandContext(t.Context(), program, "-nodes", "2", "-line", "ClusterName=two")
	says, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(says).ReadString('\n')
	require.NoError(t, err)
	conf, found := strings.CutPrefix(strings.TrimSpace(line), "export SLURM_CONF=")
	require.True(t, found, line)

	step := exec.Command("srun", "-N2", "printenv", "SLURM_CLUSTER_NAME")
	step.Env = append(os.Environ(), "SLURM_CONF="+conf)
	out, err = step.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "two\ntwo\n", string(out))

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	require.NoDirExists(t, filepath.Dir(conf))
}

// Who ends it should know what else ends.
func TestHelp(t *testing.T) {
	out, err := exec.Command("go", "run", ".", "-help").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "SIGTERM")
	require.Contains(t, string(out), "every process with that SLURM_CONF in its environment is killed")
	require.Contains(t, string(out), "-names")
}
