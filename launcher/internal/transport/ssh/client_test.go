package ssh_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/transport/remote"
	"gorun/launcher/internal/transport/remote/remotetest"
	"gorun/launcher/internal/transport/ssh"
)

// environ is an environment with an empty home and no agent.
func environ(t testing.TB, more ...string) []string {
	return append([]string{"HOME=" + t.TempDir(), "USER=nobody", "PATH=" + os.Getenv("PATH")}, more...)
}

// client makes a client that is closed with the test.
func client(t testing.TB, config ssh.Config) *ssh.Client {
	if config.Environ == nil {
		config.Environ = environ(t)
	}
	c := ssh.NewClient(config)
	t.Cleanup(c.Close)
	return c
}

// dial reaches the host "node" of a configuration.
func dial(t testing.TB, config ssh.Config) remote.Host {
	t.Helper()
	h, err := client(t, config).Dial(t.Context(), ssh.Target{Name: "node"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestContract(t *testing.T) {
	server := remotetest.NewServer(t)
	config := server.Config()
	remotetest.Contract(t, remotetest.Ways{Dial: func(t *testing.T) remote.Host { return dial(t, ssh.Config{ConfigFile: config}) }})
}
