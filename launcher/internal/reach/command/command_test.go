package command_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/command"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/remote/remotetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWords(t *testing.T) {
	plain, full := remote.Target{Name: "node1"}, remote.Target{Name: "node1", User: "ann", Port: 2222}
	for name, row := range map[string]struct {
		words  []string
		target remote.Target
		want   []string
	}{
		"as ssh": {[]string{"ssh"}, plain, []string{"ssh", "node1", "LINE"}},
		"as ssh, all named": {
			[]string{"ssh", "-F", "x"}, full, []string{"ssh", "-l", "ann", "-p", "2222", "-F", "x", "node1", "LINE"},
		},
		"like ssh": {[]string{"tool", "-q"}, full, []string{"tool", "-q", "-l", "ann", "-p", "2222", "node1", "LINE"}},
		"with a port for hosts without one": {
			[]string{"env", "/bin/ssh", "-p", "1"},
			full,
			[]string{"env", "/bin/ssh", "-l", "ann", "-p", "2222", "-p", "1", "node1", "LINE"},
		},
		"a place for the host": {
			[]string{"kubectl", "exec", "-i", "{host}", "--"},
			plain,
			[]string{"kubectl", "exec", "-i", "node1", "--", "sh", "-c", "LINE"},
		},
		"within a word": {
			[]string{"docker", "exec", "-iu{user}", "job-{host}"},
			full,
			[]string{"docker", "exec", "-iuann", "job-node1", "sh", "-c", "LINE"},
		},
		"namespaces": {
			[]string{"ip", "netns", "exec", "{host}"}, plain, []string{"ip", "netns", "exec", "node1", "sh", "-c", "LINE"},
		},
		"ssh with a place": {
			[]string{"/usr/bin/ssh", "-p", "{port}", "{user}@{host}"},
			full,
			[]string{"/usr/bin/ssh", "-p", "2222", "ann@node1", "LINE"},
		},
		"through ssh": {
			[]string{"env", "A=b", "ssh", "{host}"}, plain, []string{"env", "A=b", "ssh", "node1", "LINE"},
		},
		"a place for the line": {
			[]string{"tool", "{host}", "--command={command}", "-q"}, plain, []string{"tool", "node1", "--command=LINE", "-q"},
		},
		"a place for the line alone": {[]string{"tool", "{command}", "-q"}, plain, []string{"tool", "node1", "LINE", "-q"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := command.Argv(row.words, row.target, "LINE")
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	for _, words := range [][]string{nil, {""}, {"a", "{user}@{host}"}, {"a", "{port}", "{host}"}} {
		_, err := command.Argv(words, plain, "LINE")
		require.Error(t, err, "%q", words)
	}
	_, err := command.Argv([]string{"ssh"}, remote.Target{Name: "-oProxyCommand=x"}, "LINE")
	require.ErrorContains(t, err, "is not a host name")
}

// way returns the Setup of the suite for a remote command.
func way(words []string, target remote.Target) remotetest.Setup {
	return remotetest.Setup{Dial: func(t *testing.T) remote.Host {
		h, err := command.Dial(words, target, os.Environ(), 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = h.Close() })
		return h
	}}
}

func TestContractOverOpenSSH(t *testing.T) {
	ssh := testneeds.Program(t, remotetest.LayerSSHD, "ssh")
	server := remotetest.NewServer(t)
	remotetest.Contract(t, way([]string{ssh, "-F", server.Config()}, remote.Target{Name: "node"}))
}

// A local shell replaces a program that runs its arguments.
func TestContractOverPlainShell(t *testing.T) {
	remotetest.Contract(t, way([]string{"env", "NODE={host}"}, remote.Target{Name: "node"}))
}

func TestUserAndPortReachOpenSSH(t *testing.T) {
	ssh := testneeds.Program(t, remotetest.LayerSSHD, "ssh")
	server := remotetest.NewServer(t)
	words := []string{
		ssh, "-F", "none", "-i", server.ClientKey, "-o", "UserKnownHostsFile=" + server.Known, "-o",
		"IdentitiesOnly=yes",
	}
	h, err := command.Dial(words, remote.Target{Name: "127.0.0.1", User: server.User, Port: server.Port}, os.Environ(), 0)
	require.NoError(t, err)
	p, err := h.Start(t.Context(), "exit 7")
	require.NoError(t, err)
	var ended *remote.ExitError
	require.ErrorAs(t, p.Wait(), &ended)
	require.Equal(t, 7, ended.Code, "%s", p.Stderr())
	require.NoError(t, h.Close())
}

func TestProblems(t *testing.T) {
	h, err := command.Dial([]string{"/no/such/ssh"}, remote.Target{Name: "node\x1b"}, os.Environ(), 0)
	require.NoError(t, err)
	_, err = h.Start(t.Context(), "exit 0")
	var failure *remote.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, remote.StepConnect, failure.Step)
	require.Contains(t, err.Error(), "node^[: connect: --ssh: /no/such/ssh is not installed here")

	_, err = command.Dial([]string{"x", "{port}"}, remote.Target{Name: "node"}, nil, 0)
	require.ErrorAs(t, err, &failure)
	require.Equal(t, remote.StepConfig, failure.Step)
}

// Close ends not only the program but also its descendants.
func TestCloseEndsTheWholeGroup(t *testing.T) {
	h, err := command.Dial([]string{"env", "{host}=x"}, remote.Target{Name: "node"}, os.Environ(), 0)
	require.NoError(t, err)
	p, err := h.Start(t.Context(), "sh -c 'echo $$; exec tail -f /dev/null' & wait")
	require.NoError(t, err)
	line := make([]byte, 16)
	n, err := p.Read(line)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(line[:n-1]))
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.Eventually(t, func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || len(state) == 0 || stateOf(string(state)) == 'Z'
	}, testPatience, testInterval)
}

// Timeout and interval of the polling in tests.
const (
	testPatience = 20 * time.Second
	testInterval = 5 * time.Millisecond
)

// stateOf returns the state in a line of /proc/PID/stat.
func stateOf(stat string) byte { return stat[strings.LastIndexByte(stat, ')')+2] }
