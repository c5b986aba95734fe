package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// read reads the settings of a target, with or without OpenSSH.
func read(t *testing.T, text string, target remote.Target, openSSH bool) (*settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	environ := []string{"HOME=/home/ann", "USER=ann", "SSH_AUTH_SOCK=/run/agent", "SOCKET=/run/other", "PATH="}
	if openSSH {
		environ[len(environ)-1] = "PATH=" + os.Getenv("PATH")
	}
	c := NewClient(Config{ConfigFile: file, Environ: environ})
	t.Cleanup(c.Close)
	return c.settings(t.Context(), target)
}

// OpenSSH and the parser return the same settings.
func TestSettings(t *testing.T) {
	const text = `
Host node?
  HostName %h.example.org
  User bob
  Port 2200
  IdentityFile ~/.ssh/id_%r
  IdentityFile /keys/%h-%n-%p
  CertificateFile ~/cert.pub
  IdentitiesOnly yes
  IdentityAgent ${SOCKET}
  ProxyJump gate,carl@second:23
  ConnectTimeout 7
  UserKnownHostsFile ~/known1 /known2
  HostKeyAlias Alias
  StrictHostKeyChecking off
  AddressFamily inet6
  HashKnownHosts yes
Host proxy
  ProxyCommand connect %h %p %r %n 100%%
  IdentityAgent none
Host *
  User everybody
  IdentityFile none
`
	for name, openSSH := range map[string]bool{"by OpenSSH": true, "without OpenSSH": false} {
		t.Run(name, func(t *testing.T) {
			s, err := read(t, text, remote.Target{Name: "node1"}, openSSH)
			require.NoError(t, err)
			require.Equal(t, "bob@node1.example.org:2200", s.String())
			require.Equal(t, []string{"/home/ann/.ssh/id_bob", "/keys/node1.example.org-node1-2200"}, s.identities)
			require.Equal(t, []string{"/home/ann/cert.pub"}, s.certificates)
			require.Equal(t, "/run/other", s.agent)
			require.Equal(t, []remote.Target{{Name: "gate"}, {Name: "second", User: "carl", Port: 23}}, jumpsOf(s))
			require.Equal(t, 7*time.Second, s.connectTimeout)
			require.Equal(t, "/known2", s.userKnown[1])
			require.Equal(t, "alias", knownName(s))
			require.Equal(t, []string{"no", "inet6", "true true"},
				[]string{s.strict, s.family, strings.TrimSpace(word(s.hashKnown) + " " + word(s.identitiesOnly))})

			s, err = read(t, text, remote.Target{Name: "proxy", User: "dora", Port: 24}, openSSH)
			require.NoError(t, err)
			require.Equal(t, "connect proxy 24 dora proxy 100%", s.proxyCommand)
			require.Empty(t, s.agent)
			require.Empty(t, s.identities)
			require.Equal(t, "[proxy]:24", knownName(s))
			require.Equal(t, "ask", s.strict)

			s, err = read(t, "", remote.Target{Name: "::1", User: "eve"}, openSSH)
			require.NoError(t, err)
			require.Equal(t, "eve@[::1]:22", s.String())
			require.Equal(t, "/run/agent", s.agent)
			require.Contains(t, s.identities, "/home/ann/.ssh/id_ed25519")
			require.Empty(t, jumpsOf(s))

			_, err = read(t, "IdentityFile ${NO_SUCH_VARIABLE}/x\n", remote.Target{Name: "n"}, openSSH)
			require.ErrorContains(t, err, "NO_SUCH_VARIABLE")
			_, err = read(t, "ProxyCommand x\nProxyUseFdpass yes\n", remote.Target{Name: "n"}, openSSH)
			require.ErrorContains(t, err, "ProxyUseFdpass")
		})
	}
}

// Without HOME, no file of the current directory counts as the user's own.
func TestHomeIsNeverTheCurrentFolder(t *testing.T) {
	c := NewClient(Config{})
	defer c.Close()
	require.True(t, filepath.IsAbs(c.tilde("~/.ssh/known_hosts")))
}

func word(is bool) string {
	if is {
		return "true"
	}
	return "false"
}

func TestGlob(t *testing.T) {
	for _, row := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"*", "", true},
		{"?", "", false},
		{"a*b*c", "a.b.b.c", true},
		{"a*b*c", "a.b.b", false},
		{"10.0.?.1", "10.0.7.1", true},
		{"[10.0.0.1]:22*", "[10.0.0.1]:2222", true},
		{"**", "x", true},
		{"a", "ab", false},
		{"*a", "bab", false},
	} {
		require.Equal(t, row.want, glob(row.pattern, row.text), "%+v", row)
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add("@cert-authority *.a,!b.a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBzD1D0L1cdBoCcIBsKZfUAvJXp8IBYyNM7JsDpHVQ3e "+
		"comment\n|1|a|b ssh-rsa x", "b.a")
	f.Add("@revoked", "[a]:22")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, line := range parseKnown("file", []byte(text)) {
			line.matches(name)
			require.Positive(t, line.line)
		}
	})
}

func knownName(s *settings) string {
	name, _ := s.knownNames()
	return name
}

// The login to a jump host may have to wait for a passphrase.
func TestTimeOfAJumpHostCountsForNoOther(t *testing.T) {
	chain, j := []remote.Target{{Name: "gate"}}, &jump{ready: make(chan struct{})}
	c := NewClient(Config{})
	c.jumps.open[fmt.Sprint(chain)] = j
	b := newBudget(t.Context(), time.Hour)
	defer b.stop()
	inner, done := b.within(time.Hour), make(chan error)
	defer inner.stop()
	go func() {
		_, err := c.jumpLogin(inner, chain)
		done <- err
	}()
	isSuspended := func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.suspended > 0 }
	require.Eventually(t, isSuspended, time.Minute, time.Millisecond)
	close(j.ready)
	require.NoError(t, <-done)
	require.False(t, isSuspended())
}
