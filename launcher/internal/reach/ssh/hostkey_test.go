package ssh_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/remote/remotetest"
	"gorun/launcher/internal/reach/ssh"
)

// know replaces the server's file of known hosts.
func know(t *testing.T, server *remotetest.Server, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(server.Known, []byte(strings.Join(append(lines, ""), "\n")), 0o600))
}

// unknownKey returns a key that belongs to no server.
func unknownKey(t *testing.T, kind string) string {
	return remotetest.Keygen(t, filepath.Join(t.TempDir(), "unknown"), kind, "")
}

func TestUnknownHostKeyIsRefused(t *testing.T) {
	server := remotetest.NewServer(t)
	know(t, server)
	config := server.Config()
	print := strings.Fields(remotetest.Run(t, "ssh-keygen", "-lf", server.HostKey))[1]
	for _, strict := range []string{"ask", "yes"} {
		f := refuse(t, ssh.Config{ConfigFile: server.Config("StrictHostKeyChecking " + strict)}, remote.StepHostKey)
		require.Contains(t, f.Text, "is not known: "+print+" (ed25519)")
	}
	text, err := os.ReadFile(server.Known)
	require.NoError(t, err)
	require.Empty(t, text, "nothing was added")

	f := refuse(t, ssh.Config{ConfigFile: config}, remote.StepHostKey)
	command := strings.Split(f.Hint, "`")[1]
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	works(t, dial(t, ssh.Config{ConfigFile: config}))
}

// Several hosts at once, and several connections to the same one, add their keys to one file.
func TestAcceptNewAddsTheKey(t *testing.T) {
	for _, hash := range []string{"no", "yes"} {
		server, second := remotetest.NewServer(t), remotetest.NewServer(t)
		require.NoError(t, os.WriteFile(server.Known, []byte("# no end of line"), 0o600))
		second.Known = server.Known
		var mu sync.Mutex
		var notices []string
		tell := func(comment string) {
			mu.Lock()
			defer mu.Unlock()
			notices = append(notices, comment)
		}
		var all sync.WaitGroup
		for _, one := range []*remotetest.Server{server, second} {
			c := client(t, ssh.Config{ConfigFile: one.Config("HashKnownHosts " + hash), AcceptNew: true, Notify: tell})
			for range 3 {
				all.Go(func() {
					h, err := c.Dial(t.Context(), remote.Target{Name: "node"})
					if err != nil {
						t.Error(err)
						return
					}
					_ = h.Close()
				})
			}
		}
		all.Wait()
		require.Len(t, notices, 2, "%q", notices)
		require.Contains(t, strings.Join(notices, "\n"), "added the host key of "+server.KnownName()+" to "+server.Known)
		text, err := os.ReadFile(server.Known)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(string(text), "\n"), "%s", text)
		require.Equal(t, hash == "no", strings.Contains(string(text), server.KnownLine()+"\n"))
		works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
		remotetest.Run(t, "ssh-keygen", "-F", second.KnownName(), "-f", server.Known)
	}
}

func TestAcceptNewMakesTheFile(t *testing.T) {
	server := remotetest.NewServer(t)
	server.Known = filepath.Join(t.TempDir(), "new", "known_hosts")
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("StrictHostKeyChecking accept-new")}))
	info, err := os.Stat(server.Known)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	server.Known = filepath.Join(server.Known, "no directory")
	f := refuse(t, ssh.Config{ConfigFile: server.Config(), AcceptNew: true}, remote.StepConfig)
	require.Contains(t, f.Text, "not a directory")
	f = refuse(t, ssh.Config{ConfigFile: server.Config("UserKnownHostsFile none"), AcceptNew: true}, remote.StepHostKey)
	require.Contains(t, f.Text, "keeps gorun from adding it")
}

func TestStrictNoIsNoBlindAccept(t *testing.T) {
	server := remotetest.NewServer(t)
	config := server.Config("StrictHostKeyChecking no")
	know(t, server)
	var notices []string
	works(t, dial(t, ssh.Config{ConfigFile: config, Notify: func(comment string) { notices = append(notices, comment) }}))
	require.Len(t, notices, 2)
	require.Contains(t, notices[0], "StrictHostKeyChecking no works as accept-new")
	know(t, server, server.KnownName()+" "+remotetest.PublicKey(t, unknownKey(t, "ed25519")))
	refuse(t, ssh.Config{ConfigFile: config}, remote.StepHostKey)
}

// A changed key is refused with any setting, and the command in the hint removes the old key.
func TestChangedHostKeyIsRefused(t *testing.T) {
	server := remotetest.NewServer(t)
	for _, kind := range []string{"ed25519", "ecdsa"} { // a key of another type does not bypass the known one
		know(t, server, "# first", server.KnownName()+" "+remotetest.PublicKey(t, unknownKey(t, kind)))
		f := refuse(t, ssh.Config{ConfigFile: server.Config(), AcceptNew: true}, remote.StepHostKey)
		require.Contains(t, f.Text, "THE HOST KEY HAS CHANGED")
		require.Contains(t, f.Text, server.Known+":2 has SHA256:")
		remotetest.Run(t, "sh", "-c", strings.Split(f.Hint, "`")[1])
		works(t, dial(t, ssh.Config{ConfigFile: server.Config(), AcceptNew: true}))
	}
}

func TestRevokedHostKeyIsRefused(t *testing.T) {
	server := remotetest.NewServer(t)
	know(t, server, server.KnownLine(), "@revoked * "+remotetest.PublicKey(t, server.HostKey))
	f := refuse(t, ssh.Config{ConfigFile: server.Config(), AcceptNew: true}, remote.StepHostKey)
	require.Contains(t, f.Text, "REVOKED HOST KEY")
	require.Contains(t, f.Text, server.Known+":2")
}

// Entries in all forms that OpenSSH reads match the host, and invalid lines are skipped.
func TestFormsOfKnownHosts(t *testing.T) {
	server := remotetest.NewServer(t)
	key := remotetest.PublicKey(t, server.HostKey)
	other := remotetest.PublicKey(t, unknownKey(t, "ed25519"))
	port := fmt.Sprint(server.Port)
	for name, lines := range map[string][]string{
		"a pattern":      {"[127.0.0.*]:" + port + " " + key},
		"a list":         {"other,[127.0.0.1]:" + port + ",third " + key + " with a comment"},
		"without a port": {"127.0.0.1 " + key},
		"several keys":   {server.KnownName() + " " + other, server.KnownLine()},
		"among what is no entry": {
			"garbage", "a b c", "@unknown * " + key, server.KnownName() + " ssh-future AAAA", "* ssh-rsa AAAA",
			server.KnownLine(),
		},
		"an exception elsewhere": {"*,!" + "[127.0.0.1]:" + port + " " + other, server.KnownLine()},
	} {
		t.Run(name, func(t *testing.T) {
			know(t, server, lines...)
			works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
		})
	}
	t.Run("hashed", func(t *testing.T) {
		know(t, server, server.KnownLine())
		remotetest.Run(t, "ssh-keygen", "-q", "-H", "-f", server.Known)
		works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
	})
	t.Run("alias", func(t *testing.T) {
		know(t, server, "the-node "+key)
		works(t, dial(t, ssh.Config{ConfigFile: server.Config("HostKeyAlias The-Node")}))
	})
	t.Run("another file", func(t *testing.T) {
		know(t, server, server.KnownLine())
		works(t, dial(t,
			ssh.Config{ConfigFile: server.Config("UserKnownHostsFile /dev/null", "GlobalKnownHostsFile /no/such "+
				server.Known)}))
		works(t, dial(t, ssh.Config{ConfigFile: server.Config("UserKnownHostsFile /dev/null " + server.Known)}))
	})
	t.Run("an exception", func(t *testing.T) {
		know(t, server, "*,!"+"[127.0.0.1]:"+port+",!127.0.0.1 "+key)
		refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	})
	t.Run("another port", func(t *testing.T) {
		know(t, server, "[127.0.0.1]:1 "+key)
		refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	})
	t.Run("without a port, another key", func(t *testing.T) {
		know(t, server, "127.0.0.1 "+other)
		refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	})
}

// The server has keys of two types; the known type is chosen.
func TestKnownTypeIsPreferred(t *testing.T) {
	ecdsa := remotetest.Keygen(t, filepath.Join(t.TempDir(), "ecdsa"), "ecdsa", "")
	rsa := remotetest.Keygen(t, filepath.Join(t.TempDir(), "rsa"), "rsa", "", "-b", "2048")
	server := remotetest.NewServer(t, "HostKey "+ecdsa, "HostKey "+rsa)
	for _, key := range []string{server.HostKey, ecdsa, rsa} {
		know(t, server, server.KnownName()+" "+remotetest.PublicKey(t, key))
		works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
	}
	know(t, server, server.KnownName()+" "+remotetest.PublicKey(t, rsa))
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("HostKeyAlgorithms rsa-sha2-256")}))
}

func TestHostCertificate(t *testing.T) {
	dir := t.TempDir()
	authority := remotetest.Keygen(t, filepath.Join(dir, "authority"), "ed25519", "")
	key := remotetest.Keygen(t, filepath.Join(dir, "key"), "ed25519", "")
	certify := func(principal string) string {
		path := remotetest.Keygen(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
		remotetest.Run(t, "ssh-keygen", "-q", "-h", "-s", authority, "-I", "test", "-n", principal, path+".pub")
		return path
	}
	trusted := "@cert-authority 127.0.*,[127.0.*]:* " + remotetest.PublicKey(t, authority)

	good := certify("127.0.0.1")
	server := remotetest.NewServer(t, "HostKey "+good, "HostCertificate "+good+"-cert.pub")
	know(t, server, trusted)
	works(t, dial(t, ssh.Config{ConfigFile: server.Config()}))
	know(t, server, trusted, "@revoked * "+remotetest.PublicKey(t, authority))
	refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	know(t, server, trusted, "@revoked * "+remotetest.PublicKey(t, good))
	refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	know(t, server, "@cert-authority elsewhere "+remotetest.PublicKey(t, authority))
	refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	know(t, server, server.KnownName()+" "+remotetest.PublicKey(t, authority)) // an authority's key is not a host key
	refuse(t, ssh.Config{ConfigFile: server.Config()}, remote.StepHostKey)
	know(t, server, server.KnownName()+" "+remotetest.PublicKey(t, good)) // the plain key, as with OpenSSH
	works(t, dial(t, ssh.Config{ConfigFile: server.Config("HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com")}))

	bad := certify("elsewhere")
	server = remotetest.NewServer(t, "HostKey "+bad, "HostCertificate "+bad+"-cert.pub", "HostKey "+key)
	know(t, server, trusted)
	f := refuse(t, ssh.Config{ConfigFile: server.Config("HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com")},
		remote.StepHostKey)
	require.Contains(t, f.Text, "invalid certificate of")
}
