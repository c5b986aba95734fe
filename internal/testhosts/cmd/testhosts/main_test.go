package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(m.Run())
	}
	main()
}

// runLines runs this binary as the command.
func runLines(t *testing.T, lines string, args ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Stdin = strings.NewReader(lines)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func TestCommand(t *testing.T) {
	testneeds.Hosts(t)
	said, err := runLines(t, `cut h1
heal h1
exec head hostname; exit 7
slow h1 5ms
slow h1 0
crash h2
list
boot h2
sshd h2 start Port 2222
exec h2 hostname

dance
cut h7
sshd h1 dance
slow h1 much
`, "2", "private-home")
	require.NoError(t, err, said)
	first, said, _ := strings.Cut(said, "\n")
	require.NoDirExists(t, filepath.Clean(first[strings.Index(first, "/"):]))
	for _, want := range []string{
		"head\ntesthosts: exit status 7\nhead 10.77.0.1 up\nh1 10.77.1.1 up\nh2 10.77.1.2 crashed\nh2\n",
		"no such line: dance", `no host "h7"`, "is not stop, kill", `invalid duration "much"`,
	} {
		require.Contains(t, said, want)
	}
	said, err = runLines(t, "", "many")
	require.Error(t, err)
	require.Contains(t, said, `"many" is no number of hosts`)
}
