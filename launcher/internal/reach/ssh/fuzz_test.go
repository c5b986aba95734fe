package ssh

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/reach/remote"
)

// Parsing the output of ssh -G loses nothing, and the resulting settings are within their bounds.
func FuzzDump(f *testing.F) {
	f.Add("hostname n1\nport 2200\nidentityfile ~/.ssh/a\nidentityfile ~/.ssh/b\nproxyjump u@a:1,[::1]:2\n")
	f.Add("port 0x16\r\nconnecttimeout -1\n\nuser\nuserknownhostsfile \"a b\" none %h\n")
	f.Add("proxycommand exec nc %h %p %% ${HOME} %C\nidentityagent $SSH_AUTH_SOCK\nhostkeyalgorithms a,,b")
	c := NewClient(Config{Environ: []string{"HOME=/home/ann", "USER=ann"}})
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, text string) {
		options, lines := remote.ParseDump(text), 0
		var again strings.Builder
		for key, values := range options {
			require.NotContains(t, key, " ")
			for _, value := range values {
				require.NotContains(t, value, "\n")
				again.WriteString(key + " " + value + "\n")
				lines++
			}
		}
		require.Equal(t, options, remote.ParseDump(again.String()))
		require.LessOrEqual(t, lines, strings.Count(text, "\n")+1)
		s, err := c.fromOptions(remote.Target{Name: "n1"}, options)
		if err != nil {
			return
		}
		require.True(t, s.port >= 1 && s.port <= 65535, s.port)
		require.Contains(t, []string{"yes", "no", "accept-new", "ask"}, s.strict)
		for _, jump := range jumpsOf(s) {
			require.NotContains(t, jump.Name, ",")
		}
	})
}

// The shell of a proxy command gets each name as exactly one word, or no name at all.
func FuzzProxyCommand(f *testing.F) {
	for _, name := range []string{
		"n1", "::1", "fe80::1%eth0", "a;touch x", "$(id)", "`id`", "a b", "-oProxyCommand=x",
		"a\nid", "*", "grün", "=ls", "~root", "#", "a'b", "",
	} {
		f.Add(name, "ann", "%h")
		f.Add("n1", name, name)
	}
	c := NewClient(Config{Environ: []string{"HOME=/home/ann", "USER=ann"}})
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, host, user, text string) {
		s, err := c.fromOptions(remote.Target{Name: host},
			map[string][]string{"user": {user}, "port": {"7"}, "proxycommand": {`printf "%%s\n" %h %n %r %p`}})
		if err == nil && s.user != "" && host != "" && !strings.Contains(host+s.user, `\`) {
			said, err := exec.Command("/bin/sh", "-c", "exec "+s.proxyCommand).CombinedOutput()
			require.NoError(t, err, string(said))
			require.Equal(t, s.hostName+"\n"+host+"\n"+s.user+"\n7\n", string(said))
		}
		if !strings.Contains(text, "${") {
			same, err := c.expand(&settings{}, strings.ReplaceAll(text, "%", "%%"))
			require.NoError(t, err)
			require.Equal(t, text, same)
		}
		if expanded, err := c.expand(&settings{hostName: host}, text); err == nil && !strings.ContainsAny(text, "%$") {
			require.Equal(t, text, expanded)
		}
	})
}

// Parsing returns the jump hosts that were formatted.
func FuzzJumps(f *testing.F) {
	f.Add("ann", "gate", 22, "u@a:1,ssh://b, [::1]:3,")
	f.Add("", "::1", 0, "@,:,[],a:99999999999999999999")
	f.Fuzz(func(t *testing.T, user, host string, port int, text string) {
		for _, jump := range jumpsOf(&settings{proxyJump: text}) {
			require.NotContains(t, jump.Name+jump.User, ",")
		}
		if strings.ContainsAny(user+host, ",@[]/ \t\n\v\f\r\u0085\u00a0") || strings.TrimSpace(user+host) != user+host ||
			host == "" || port < 1 || port > 65535 {
			return
		}
		written := net.JoinHostPort(host, strconv.Itoa(port))
		if user != "" {
			written = user + "@" + written
		}
		want := remote.Target{Name: host, User: user, Port: port}
		require.Equal(t, []remote.Target{want, want}, jumpsOf(&settings{proxyJump: written + ", ssh://" + written}))
	})
}
