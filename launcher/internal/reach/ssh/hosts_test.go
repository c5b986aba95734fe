package ssh_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/launcher/internal/reach/remote"
	"gorun/launcher/internal/reach/ssh"
)

// loginVariable makes the test binary log in to the hosts that it lists, because only the head host reaches them. Its
// value is CONFIG, then USER@HOST or HOST.
const loginVariable = "TEST_SSH_LOGIN"

// loginEverywhere logs in to all hosts at once and prints a line for each, in their order.
func loginEverywhere(out io.Writer, config string, targets []string) error {
	c := ssh.NewClient(ssh.Config{ConfigFile: config, Environ: os.Environ(), Timeout: 20 * time.Second})
	defer c.Close()
	lines := make([]string, len(targets))
	began := time.Now()
	var all sync.WaitGroup
	for i, word := range targets {
		all.Go(func() {
			var target remote.Target
			var named bool
			if target.User, target.Name, named = strings.Cut(word, "@"); !named {
				target = remote.Target{Name: word}
			}
			lines[i] = fmt.Sprintf("%s: %s", word, ask(c, target))
		})
	}
	all.Wait()
	fmt.Fprintf(os.Stderr, "%d hosts in %s\n", len(targets), time.Since(began).Round(time.Millisecond))
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// ask returns the user and host names that a host reports.
func ask(c *ssh.Client, target remote.Target) string {
	h, err := c.Dial(context.Background(), target)
	if err != nil {
		return err.Error()
	}
	defer h.Close()
	p, err := h.Start(context.Background(), `sh -c 'echo "=$(id -un) $(hostname)"'`)
	if err != nil {
		return err.Error()
	}
	answer, err := io.ReadAll(p)
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return err.Error()
	}
	_, said, _ := strings.Cut(string(answer), "=")
	return strings.TrimSpace(said)
}

// login runs the test binary on the head host.
func login(t *testing.T, set *testhosts.Set, targets ...string) (lines []string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := set.Command(testhosts.Head, self)
	command.Env = append(os.Environ(), loginVariable+"="+strings.Join(append([]string{set.SSHConfig()}, targets...), " "))
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	require.NoError(t, err, "%s%s", out, problems.String())
	t.Log(problems.String())
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestManyHostsAtOnce(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 16, PrivateHome: true})
	var wanted []string
	for _, host := range set.Hosts() {
		wanted = append(wanted, host+": root "+host)
	}
	require.Equal(t, wanted, login(t, set, set.Hosts()...))
}

// Other users have their own shells, which print something before every command.
func TestUsersAndTheirShells(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{
		Hosts: 2, PrivateHome: true, SSHD: []string{"MaxStartups 1:100:1", "Banner /etc/hostname"},
	})
	for name, user := range map[string]testhosts.User{
		"fisher": {Shell: "/usr/bin/fish", Files: map[string]string{".config/fish/config.fish": "echo hello from fish\n"}},
		"turtle": {Shell: "/usr/bin/tcsh", Files: map[string]string{".tcshrc": "echo hello from tcsh\n"}},
		"basher": {Shell: "/bin/bash", Files: map[string]string{".bashrc": "echo hello from bash\n"}},
	} {
		if _, err := os.Stat(user.Shell); err != nil {
			continue // as in the suite above
		}
		user.Name = name
		_, err := set.AddUser("h1", user)
		require.NoError(t, err)
		require.Equal(t, []string{name + "@h1: " + name + " h1", "h2: root h2"}, login(t, set, name+"@h1", "h2"))
	}
	// Many logins to one host at once: the server drops some, and they are tried again.
	require.Equal(t, []string{"h2: root h2", "h2: root h2", "h2: root h2", "h2: root h2"},
		login(t, set, "h2", "h2", "h2", "h2"))

	lines := login(t, set, "nobody-known@h1", "h1")
	require.Contains(t, lines[0], "h1: authentication: nobody-known@")
	require.Equal(t, "h1: root h1", lines[1])
}
