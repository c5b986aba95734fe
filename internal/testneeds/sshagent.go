package testneeds

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// SSHAgent starts an ssh-agent that holds keys and listens at socket until the test ends.
func SSHAgent(t testing.TB, layer Layer, socket string, keys ...string) {
	t.Helper()
	agent := exec.Command(Program(t, layer, "ssh-agent"), "-D", "-a", socket)
	stdout, err := agent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	_, err = bufio.NewReader(stdout).ReadString('\n') // It writes once it listens, which is after it has made the file.
	require.NoError(t, err)
	for _, key := range keys {
		add := exec.Command("ssh-add", "-q", key)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		out, err := add.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
