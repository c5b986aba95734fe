package ssh_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/remote/remotetest"
	"gorun/launcher/internal/reach/ssh"
)

// environ returns an environment with an empty home directory and no agent.
func environ(t testing.TB, more ...string) []string {
	return append([]string{"HOME=" + t.TempDir(), "USER=nobody", "PATH=" + os.Getenv("PATH")}, more...)
}

// client returns a client that is closed with the test.
func client(t testing.TB, config ssh.Config) *ssh.Client {
	if config.Environ == nil {
		config.Environ = environ(t)
	}
	c := ssh.NewClient(config)
	t.Cleanup(c.Close)
	return c
}

// dial connects to the host "node" of a configuration.
func dial(t testing.TB, config ssh.Config) remote.Host {
	t.Helper()
	h, err := client(t, config).Dial(t.Context(), remote.Target{Name: "node"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestContract(t *testing.T) {
	server := remotetest.NewServer(t)
	config := server.Config()
	remotetest.Contract(t, remotetest.Setup{Dial: func(t *testing.T) remote.Host {
		return dial(t, ssh.Config{ConfigFile: config})
	}})
}

func TestMain(m *testing.M) {
	if words := strings.Fields(os.Getenv(loginVariable)); len(words) > 0 {
		if err := loginEverywhere(os.Stdout, words[0], words[1:]); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestHostSaysThatItHasRead(t *testing.T) {
	config := remotetest.NewServer(t).Config()
	p, err := dial(t, ssh.Config{ConfigFile: config}).Start(t.Context(), "cat >/dev/null")
	require.NoError(t, err)
	_, err = p.Write(make([]byte, 100<<10))
	require.NoError(t, err)
	require.True(t, p.(interface{ Settle() bool }).Settle())
	require.True(t, p.(interface{ Near() bool }).Near())
	require.NoError(t, p.CloseWrite())
	require.NoError(t, p.Wait())
}

// Any login shell works, even one that prints something before it runs a command.
func TestContractWithOtherShells(t *testing.T) {
	for name, line := range map[string]string{
		"fish":   `fish -c "$SSH_ORIGINAL_COMMAND"`,
		"tcsh":   `tcsh -f -c "$SSH_ORIGINAL_COMMAND"`,
		"chatty": `echo 'Welcome to node!'; echo 'Maintenance on Sunday.' >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"`,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "chatty" {
				testneeds.Program(t, remotetest.LayerSSHD, name)
			}
			var noise []byte
			if name == "chatty" {
				noise = []byte("Welcome to node!\n")
			}
			server := remotetest.NewServer(t, "ForceCommand "+line)
			config := server.Config()
			remotetest.Contract(t, remotetest.Setup{Noise: noise, Dial: func(t *testing.T) remote.Host {
				return dial(t, ssh.Config{ConfigFile: config})
			}})
		})
	}
}
