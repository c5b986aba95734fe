package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
)

// command builds the program and returns what runs it on the set that dir names.
func command(t *testing.T) func(dir string, args ...string) (string, error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "testhosts")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return func(dir string, args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "TESTHOSTS_DIR="+dir)
		said, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(said)), err
	}
}

func TestCommand(t *testing.T) {
	testneeds.Hosts(t)
	t.Setenv("TESTHOSTS_OPTIONS", "private-home")
	run := command(t)
	dir, err := run("", "up", "2")
	require.NoError(t, err, dir)
	down := func() {
		if set, err := testhosts.Load(dir); err == nil {
			require.NoError(t, set.Down())
		}
	}
	t.Cleanup(down)
	expect := func(want string, args ...string) {
		t.Helper()
		said, err := run(dir, args...)
		require.NoError(t, err, said)
		require.Equal(t, want, said)
	}
	expect(dir, "dir")
	expect(filepath.Join(dir, "ssh_config"), "ssh-config")
	expect("h2", "exec", "head", "ssh", "-F", filepath.Join(dir, "ssh_config"), "h2", "hostname")
	expect("", "cut", "h1")
	expect("", "heal", "h1")
	expect("", "slow", "h1", "5")
	expect("h1", "exec", "head", filepath.Join(dir, "ssh"), "h1", "hostname")
	expect("", "slow", "h1", "0")
	expect("", "crash", "h2")
	expect("head 10.77.0.1 up\nh1 10.77.1.1 up\nh2 10.77.1.2 crashed", "list")
	expect("", "boot", "h2")
	expect("", "sshd", "h2", "start", "Port 2222")
	expect("h2", "exec", "head", filepath.Join(dir, "ssh"), "h2", "hostname")

	said, err := run(dir, "exec", "h1", "sh", "-c", "exit 7")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, said)
	require.Equal(t, 7, exit.ExitCode())
	for want, args := range map[string][]string{
		"unknown verb":            {"dance"},
		"needs one host":          {"cut"},
		`no host "h7"`:            {"cut", "h7"},
		"is not stop, kill":       {"sshd", "h1", "dance"},
		"a number of hosts":       {"up", "many"},
		"a number of millisecond": {"slow", "h1", "much"},
	} {
		said, err := run(dir, args...)
		require.Error(t, err)
		require.Contains(t, said, want)
	}
	expect("", "down")
	require.NoDirExists(t, dir)
}
