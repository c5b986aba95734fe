package ssh_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/remote/remotetest"
	"gorun/launcher/internal/reach/ssh"
)

// refuse dials "node" and requires an error of a step.
func refuse(t *testing.T, config ssh.Config, step remote.Step) *remote.Error {
	t.Helper()
	return refuseTarget(t, config, remote.Target{Name: "node"}, step)
}

func refuseTarget(t *testing.T, config ssh.Config, target remote.Target, step remote.Step) *remote.Error {
	t.Helper()
	h, err := client(t, config).Dial(t.Context(), target)
	if err == nil {
		_ = h.Close()
	}
	var failure *remote.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, step, failure.Step, "%v", err)
	t.Logf("%v\n\thint: %s", err, failure.Hint)
	return failure
}

// works requires that a command runs on the host.
func works(t *testing.T, h remote.Host) {
	t.Helper()
	p, err := h.Start(t.Context(), "exit 4")
	require.NoError(t, err)
	var ended *remote.ExitError
	require.ErrorAs(t, p.Wait(), &ended)
	require.Equal(t, 4, ended.Code)
}

func TestKeysOfEveryType(t *testing.T) {
	server := remotetest.NewServer(t)
	for name, more := range map[string][]string{
		"ed25519": nil, "ecdsa": {"-b", "384"}, "rsa": {"-b", "2048"},
		"rsa in PEM": {"-b", "2048", "-m", "PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(name, " ")
			key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), kind, "", more...)
			server.Authorize(key)
			works(t, dial(t, ssh.Config{ConfigFile: server.Config("IdentityFile " + key)}))
		})
	}
}

func TestAgentOnlyKey(t *testing.T) {
	server := remotetest.NewServer(t)
	key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "rsa", "", "-b", "2048")
	server.Authorize(key)
	socket := filepath.Join(t.TempDir(), "agent")
	testneeds.SSHAgent(t, remotetest.LayerSSHD, socket, key)
	require.NoError(t, os.Remove(key))
	require.NoError(t, os.Remove(server.ClientKey))
	require.NoError(t, os.Remove(server.ClientKey+".pub"))
	with := environ(t, "SSH_AUTH_SOCK="+socket)
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("Match all", "IdentitiesOnly no"), Environ: with}))
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("IdentityFile " + key), Environ: with})) // key.pub names it
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("IdentitiesOnly no", "IdentityAgent "+socket)}))

	f := refuse(t, ssh.Config{ConfigFile: server.Config(), Environ: with}, remote.StepAuth)
	require.Contains(t, f.Text, "no key to offer")
	f = refuse(t, ssh.Config{ConfigFile: server.Config("IdentityAgent none", "IdentitiesOnly no"), Environ: with},
		remote.StepAuth)
	require.Contains(t, f.Text, "it takes publickey")
	f = refuse(t, ssh.Config{
		ConfigFile: server.Config("IdentitiesOnly no"),
		Environ:    environ(t, "SSH_AUTH_SOCK=/no/agent"),
	}, remote.StepAuth)
	require.Contains(t, f.Text, "the agent at /no/agent: connect: no such file or directory")
}

// Another agent takes the place of one that has ended.
func TestAgentIsReplaced(t *testing.T) {
	server := remotetest.NewServer(t)
	key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
	server.Authorize(key)
	socket := filepath.Join(t.TempDir(), "agent")
	c := client(t, ssh.Config{ConfigFile: server.Config("IdentitiesOnly no", "IdentityAgent "+socket)})
	require.NoError(t, os.Remove(server.ClientKey))
	require.NoError(t, os.Remove(server.ClientKey+".pub"))
	for _, agent := range []string{"first", "second"} {
		t.Run(agent, func(t *testing.T) {
			testneeds.SSHAgent(t, remotetest.LayerSSHD, socket, key)
			h, err := c.Dial(t.Context(), remote.Target{Name: "node"})
			require.NoError(t, err)
			require.NoError(t, h.Close())
		})
		_ = os.Remove(socket)
	}
}

// One prompt unlocks a key for all hosts, whichever needs it first.
func TestEncryptedKeyAsksOnce(t *testing.T) {
	server := remotetest.NewServer(t)
	for _, format := range []string{"RFC4716", "PEM"} {
		key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "rsa", "open sesame", "-b", "2048", "-m", format)
		server.Authorize(key)
		if format == "PEM" {
			require.NoError(t, os.Remove(key+".pub"))
		}
		require.NoError(t, os.WriteFile(server.ClientKey, nil, 0o600))
		var asked atomic.Int32
		c := client(t, ssh.Config{ConfigFile: server.Config("IdentityFile " + key), Prompt: func(prompt string) (string,
			error,
		) {
			require.Equal(t, "Enter passphrase for key '"+key+"': ", prompt)
			if asked.Add(1) == 1 {
				return "wrong", nil
			}
			return "open sesame", nil
		}})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				h, err := c.Dial(t.Context(), remote.Target{Name: "node"})
				if err != nil {
					t.Error(err)
					return
				}
				works(t, h)
				_ = h.Close()
			})
		}
		all.Wait()
		require.EqualValues(t, 2, asked.Load(), "one mistake, one answer, for four connections")
	}
}

func TestEncryptedKeyWithoutTerminal(t *testing.T) {
	server := remotetest.NewServer(t)
	key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "ed25519", "secret")
	server.Authorize(key)
	config := server.Config("IdentityFile " + key)
	require.NoError(t, os.Remove(server.ClientKey))
	f := refuse(t, ssh.Config{ConfigFile: config}, remote.StepAuth)
	require.Contains(t, f.Text, key+" needs a passphrase, and there is no terminal to ask for it")
	require.Equal(t, "run `ssh-add "+key+"`", f.Hint)
	f = refuse(t, ssh.Config{ConfigFile: config, Prompt: func(string) (string, error) {
		return "", errors.New("interrupted")
	}}, remote.StepAuth)
	require.Contains(t, f.Text, "is locked: interrupted")
}

func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	authority := remotetest.Keygen(t, filepath.Join(dir, "authority"), "ed25519", "")
	server := remotetest.NewServer(t, "TrustedUserCAKeys "+authority+".pub")
	key := remotetest.Keygen(t, filepath.Join(dir, "key"), "rsa", "", "-b", "2048")
	remotetest.Run(t, "ssh-keygen", "-q", "-s", authority, "-I", "test", "-n", server.User, key+".pub")
	require.NoError(t, os.WriteFile(server.Authorized, nil, 0o600))
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("IdentityFile " + key)}))

	elsewhere := filepath.Join(dir, "elsewhere-cert.pub")
	require.NoError(t, os.Rename(key+"-cert.pub", elsewhere))
	refuse(t, ssh.Config{ConfigFile: server.Config("IdentityFile " + key)}, remote.StepAuth)
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("IdentityFile "+key, "CertificateFile "+elsewhere)}))
}

func TestWrongUserAndKey(t *testing.T) {
	server := remotetest.NewServer(t)
	f := refuseTarget(t, ssh.Config{ConfigFile: server.Config()}, remote.Target{Name: "node", User: "no-such-user"},
		remote.StepAuth)
	require.Contains(t, f.Text, fmt.Sprintf("no-such-user@127.0.0.1:%d refuses the login; offered: %s SHA256:",
		server.Port, server.ClientKey))
	require.Equal(t, fmt.Sprintf("run `ssh-copy-id -p %d no-such-user@node`", server.Port), f.Hint)
}

func TestPort(t *testing.T) {
	server := remotetest.NewServer(t)
	config := server.Config("Port 1")
	refuse(t, ssh.Config{ConfigFile: config}, remote.StepConnect)
	h, err := client(t, ssh.Config{ConfigFile: config}).Dial(t.Context(), remote.Target{Name: "node", Port: server.Port})
	require.NoError(t, err)
	works(t, h)
	require.Equal(t, "node", h.Name())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close(), "twice")
}

// jumpConfig reaches "node" through "gate", which is another server.
func jumpConfig(t *testing.T, server, gate *remotetest.Server) string {
	config := server.Config("Host node", "ProxyJump gate", "Host gate", "HostName 127.0.0.1",
		fmt.Sprint("Port ", gate.Port), "User "+gate.User,
		"IdentityFile "+gate.ClientKey, "IdentitiesOnly yes", "UserKnownHostsFile "+gate.Known, "Host node")
	return config
}

// Several hosts behind a jump host share one connection to it.
func TestJumpHost(t *testing.T) {
	server, gate := remotetest.NewServer(t), remotetest.NewServer(t)
	c := client(t, ssh.Config{ConfigFile: jumpConfig(t, server, gate)})
	first, err := c.Dial(t.Context(), remote.Target{Name: "node"})
	require.NoError(t, err)
	second, err := c.Dial(t.Context(), remote.Target{Name: "node"})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	works(t, second)
	require.NoError(t, second.Close())
	require.EqualValues(t, 1, gate.Connections.Load())
	require.EqualValues(t, 2, server.Connections.Load())

	require.NoError(t, os.WriteFile(gate.Known, nil, 0o600))
	f := refuse(t, ssh.Config{ConfigFile: jumpConfig(t, server, gate)}, remote.StepConnect)
	require.Contains(t, f.Text, "jump host gate: host key: the host key of")
}

func TestJumpHostCannotConnect(t *testing.T) {
	server, gate := remotetest.NewServer(t), remotetest.NewServer(t)
	f := refuseTarget(t, ssh.Config{ConfigFile: jumpConfig(t, server, gate)}, remote.Target{Name: "node", Port: 1},
		remote.StepConnect)
	require.Contains(t, f.Text, "jump host gate cannot connect to")
}

func TestJumpInACircle(t *testing.T) {
	server := remotetest.NewServer(t)
	f := refuse(t,
		ssh.Config{ConfigFile: server.Config("Host a", "ProxyJump b", "Host b", "ProxyJump a", "Host node",
			"ProxyJump a")}, remote.StepConnect)
	require.Contains(t, f.Text, "forms a loop")

	both := client(t, ssh.Config{ConfigFile: server.Config("Host a", "ProxyJump b", "Host b", "ProxyJump a")})
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "a", "b"} { // each may be the jump host for which the other's waits
		all.Go(func() {
			_, err := both.Dial(t.Context(), remote.Target{Name: name})
			assert.ErrorContains(t, err, "forms a loop")
		})
	}
	all.Wait()
}

func TestProxyCommand(t *testing.T) {
	server := remotetest.NewServer(t)
	ssh_ := testneeds.Program(t, remotetest.LayerSSHD, "ssh")
	proxy := fmt.Sprintf("ProxyCommand %s -F %s -W %%h:%%p node", ssh_, server.Config())
	h := dial(t, ssh.Config{ConfigFile: server.Config(proxy)})
	works(t, h)
	require.NoError(t, h.Close())
	require.EqualValues(t, 2, server.Connections.Load())

	f := refuse(t, ssh.Config{ConfigFile: server.Config("ProxyCommand echo no way for %r >&2; exit 3")},
		remote.StepConnect)
	require.Contains(t, f.Text, "ended the connection: no way for "+server.User)
}

// Connections that close early are tried again.
func TestDropsAreTriedAgain(t *testing.T) {
	server := remotetest.NewServer(t)
	server.Drop.Store(2)
	works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
	require.EqualValues(t, 3, server.Connections.Load())
}

func TestResolveAndConnect(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte("Host closed\nHostName 127.0.0.1\nPort 1\n"), 0o600))
	f := refuseTarget(t, ssh.Config{ConfigFile: config}, remote.Target{Name: "closed"}, remote.StepConnect)
	require.Contains(t, f.Text, "127.0.0.1:1 refused")
	refuseTarget(t, ssh.Config{ConfigFile: config}, remote.Target{Name: "no-such-host.invalid"}, remote.StepResolve)
	refuseTarget(t, ssh.Config{ConfigFile: config}, remote.Target{Name: "a b"}, remote.StepConfig)
	require.NoError(t, os.WriteFile(config, []byte("Bogus yes\n"), 0o600))
	f = refuseTarget(t, ssh.Config{ConfigFile: config}, remote.Target{Name: "any"}, remote.StepConfig)
	require.Contains(t, f.Text, "bogus")
}

// listen starts a server for behavior that no sshd has.
func listen(t *testing.T, serve func(net.Conn)) (config string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	config = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("Host node\nHostName 127.0.0.1\nPort %d\nConnectTimeout 1\nUserKnownHostsFile /dev/null\n",
		listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

func TestFrozenHostEndsAtItsDeadline(t *testing.T) {
	wait := func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = conn.Read(make([]byte, 1<<10)) // until the peer closes the connection
		_ = conn.Close()
	}
	f := refuse(t, ssh.Config{ConfigFile: listen(t, wait)}, remote.StepKeys)
	require.Contains(t, f.Text, "may be frozen (waited 1s)")
}

func TestGarbageIsNoSSH(t *testing.T) {
	garbage := func(conn net.Conn) {
		_, _ = conn.Write([]byte("HTTP/1.1 400 \x1b[31m Bad Request\r\n" + strings.Repeat("\x1b]0;x\a", 1<<12)))
		_, _ = conn.Read(make([]byte, 1<<10))
		_ = conn.Close()
	}
	f := refuse(t, ssh.Config{ConfigFile: listen(t, garbage)}, remote.StepKeys)
	require.NotContains(t, f.Error(), "\x1b")
}

// Control bytes in a host's refusal are shown in escaped form.
func TestControlBytesAreShown(t *testing.T) {
	key := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(text)
	require.NoError(t, err)
	config := listen(t, func(conn net.Conn) {
		server := &xssh.ServerConfig{NoClientAuth: true}
		server.AddHostKey(signer)
		_, channels, requests, err := xssh.NewServerConn(conn, server)
		if err != nil {
			return
		}
		go xssh.DiscardRequests(requests)
		for channel := range channels {
			_ = channel.Reject(xssh.Prohibited, "not \x1b[2J today")
		}
	})
	h, err := client(t, ssh.Config{ConfigFile: config, AcceptNew: true}).Dial(t.Context(), remote.Target{Name: "node"})
	require.NoError(t, err)
	_, err = h.Start(t.Context(), "true")
	_ = h.Close() // before a failure, as the server waits for it
	require.ErrorContains(t, err, "the host refuses a session: not ^[[2J today")
}
