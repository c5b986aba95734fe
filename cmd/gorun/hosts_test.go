package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testhosts"
	"gorun/internal/testneeds"
	"gorun/launcher/hosts"
	"gorun/launcher/job"
)

// allocation has the variables that salloc -N4 --ntasks-per-node=2 sets.
var allocation = []string{
	"SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_NTASKS=8", "SLURM_TASKS_PER_NODE=2(x4)",
}

// hostList lists hosts with their slots, and marks this host with a star.
func hostList(list []hosts.Host) string {
	var words []string
	for _, h := range list {
		if h.Slots > 0 {
			h.Name += fmt.Sprintf(":%d", h.Slots)
		}
		if h.Here {
			h.Name += "*"
		}
		words = append(words, h.Name)
	}
	return strings.Join(words, " ")
}

func TestHostsCheck(t *testing.T) {
	o := mustBe[*hostsOptions](t, "gorun hosts check -H node[1-2],here --ssh-config f --exclude node1 --json ./x a")
	require.Equal(t, "node2 here*", hostList(o.Spec.Hosts))
	require.Equal(t, "f", o.Spec.Reach.SSHConfig)
	require.Equal(t, []job.App{{Program: "./x", Args: []string{"a"}}}, o.Spec.Apps)
	require.True(t, o.JSON)
	require.Nil(t, mustBe[*hostsOptions](t, "gorun hosts check -H a").Spec.Apps)
	require.True(t, mustBe[*hostsOptions](t, "gorun hosts --help").HelpRequested())
	const one = "gorun hosts has two commands: gorun hosts check -H HOST,... and gorun hosts quarantine; " +
		"gorun ./hosts starts a program of that name"
	const none = "no hosts given: gorun hosts check -H HOST,..., or --hostfile FILE"
	requireProblems(t, map[string][]string{
		"gorun hosts":       {one},
		"gorun hosts list":  {one},
		"gorun hosts check": {none},
		"gorun hosts check -n 3 ": {
			"unknown option -n: gorun has it, gorun hosts does not; call gorun for it", none,
		},
	})
}

// Without options, the hosts come from a resource manager, which starts the agents.
func TestCommandsInAllocation(t *testing.T) {
	for line, want := range map[string][2]string{
		"gorun hosts check":           {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
		"gorun hosts check -H n3":     {"n3:2", "--nodes=1 --ntasks=1 --nodelist=n3"},
		"gorun bench allreduce -np 4": {"n1:2 n2:2 n3:2 n4:2", "--nodes=4 --ntasks=4 --nodelist=n[1-4]"},
	} {
		r, err := parseWords(strings.Fields(line)[1:], aroundOf(allocation...))
		require.NoError(t, err)
		var spec job.Spec
		switch r := r.(type) {
		case *hostsOptions:
			spec = r.Spec
		case *benchOptions:
			spec = r.Spec
		}
		require.Equal(t, want[0], hostList(spec.Hosts), line)
		require.Contains(t, strings.Join(spec.Reach.Engine.Once, " "), want[1], line)
	}
}

func TestTokenAndAgent(t *testing.T) {
	require.Empty(t, mustBe[*tokenOptions](t, "gorun token").file)
	require.Empty(t, mustBe[*wordRequest](t, "gorun agent").word)
	require.Equal(t, "how", mustBe[*wordRequest](t, "gorun agent how").word)
	require.Len(t, problems(t, "gorun token 3"), 1)
	require.Len(t, problems(t, "gorun agent a b"), 1)
}

func TestSavedToken(t *testing.T) {
	o := mustBe[*tokenOptions](t, "gorun token --save", "HOME=/home/me")
	require.Equal(t, "/home/me/.config/gorun/token", o.file)
	require.True(t, o.save)
	require.Equal(t, []string{"--save and --out both say where: keep one"},
		problems(t, "gorun token --save --out f", "HOME=/home/me"))
	require.Equal(t, []string{"--save: neither XDG_CONFIG_HOME nor HOME is set: use --out FILE"},
		problems(t, "gorun token --save"))
}

// ownGorun is a copy of the test binary with the name gorun. TestMain then runs gorun, on other hosts too.
func ownGorun(t *testing.T) string {
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	path := filepath.Join(t.TempDir(), "gorun")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(f, self)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return path
}

// onHead is a gorun command line on the set's head; each host has a gorun.
func onHead(set *testhosts.Set, gorun, config string, words ...string) *exec.Cmd {
	var options []string
	switch words[0] {
	case "hosts", "bench":
		options, words = words[:2], words[2:]
	case "doctor":
		options, words = words[:1], words[1:]
	}
	line := append(append([]string{gorun}, options...), "--ssh-config", config, "--agent", gorun)
	cmd := set.Command(testhosts.Head, append(line, words...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR=1")
	return cmd
}

func TestHostsCheckOverSSH(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 3, PrivateHome: true})
	dir := t.TempDir()
	program, old := filepath.Join(dir, "trainer"), filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n: new\n"), 0o755))
	require.NoError(t, os.WriteFile(old, []byte("#!/bin/sh\n: old\n"), 0o755))
	require.NoError(t, set.Mount("h2", "--bind", old, program))
	require.NoError(t, set.SSHD("h3").Stop())
	cmd := onHead(set, ownGorun(t), set.SSHConfig(), "hosts", "check", "-H", "h[1-3]", program)
	out, err := cmd.CombinedOutput()
	assert.Equal(t, exitFindings, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
	for _, line := range []string{
		`h3 +no: connect \(\d+\.\d s\)`,
		`2 of 2 paths between 2 hosts work; .*`,
		`MASTER_ADDR would be 10\..* of h1: h2 reaches it within \d+ms`,
		`✗ h3: connect: connection to root@10.* refused \[reach\]`,
		`    check that sshd runs there, at this port`,
		`    try:  gorun hosts check -v --ssh-config .* -H h3`,
		`h1 .* ` + program + `, 16 B, SHA-256 [0-9a-f]{12}`,
		`h2 .* ` + program + `, 16 B, SHA-256 [0-9a-f]{12}`,
		`✗ h2: ` + program + ` is another file than on the other host \[program-differs\]`,
		`    try:  gorun --copy ` + program + ` \.\.\. # sends yours to each host`,
	} {
		assert.Regexp(t, regexp.MustCompile(`(?m)^`+line+`$`), string(out))
	}
}

// gorun prompts for the passphrase of a key once. Neither the passphrase nor the progress line stays on the
// terminal.
func TestPassphraseAndProgressOnATerminal(t *testing.T) {
	set := testhosts.Up(t, testhosts.Config{Hosts: 3, PrivateHome: true})
	key := filepath.Join(t.TempDir(), "key")
	text, err := os.ReadFile(set.Key())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, text, 0o600))
	said, err := exec.Command("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", key).CombinedOutput()
	require.NoError(t, err, "%s", said)
	text, err = os.ReadFile(set.SSHConfig())
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), set.Key(), key)), 0o600))
	require.NoError(t, set.Slow("h3", 60*time.Millisecond)) // slow enough that gorun draws the line

	seen := onTerminal(t, onHead(set, ownGorun(t), config, "-H", "h1,h2,h3", "hostname"), "passphrase", "open sesame\n")
	assert.Contains(t, seen, "Reaching ")
	assert.Equal(t, 1, strings.Count(seen, "Enter passphrase"), seen)
	assert.NotContains(t, seen, "sesame")
	left := leftOnScreen(seen)
	assert.NotContains(t, left, "Reaching")
	for rank := range 3 {
		assert.Contains(t, left, fmt.Sprintf("[%d] h%d\n", rank, rank+1))
	}
}

// terminal makes a terminal of 25 lines and returns its two ends.
func terminal(t *testing.T) (head, tty *os.File) {
	t.Helper()
	head, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testneeds.Skip(t, "devices", err.Error())
	}
	t.Cleanup(func() { _ = head.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(head.Fd()), unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(int(head.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 100}))
	number, err := unix.IoctlGetInt(int(head.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return head, tty
}

// onTerminal runs a command on a new terminal, answers one question, and returns all output.
func onTerminal(t *testing.T, cmd *exec.Cmd, question, answer string) string {
	t.Helper()
	head, tty := terminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	var seen strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := head.Read(buf)
		seen.Write(buf[:n])
		if answer != "" && strings.Contains(seen.String(), question) {
			_, err = head.WriteString(answer)
			answer = ""
		}
		if err != nil { // EIO: no process has the terminal open any more
			break
		}
	}
	assert.NoError(t, cmd.Wait(), "%s", seen.String())
	return seen.String()
}

// leftOnScreen is the final content of the terminal.
func leftOnScreen(seen string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(seen, "\r\n", "\n"), "\n") {
		shown := ""
		for _, part := range strings.Split(line, "\r") {
			rest, erased := strings.CutSuffix(part, "\x1b[K")
			switch {
			case erased || strings.HasPrefix(part, "\x1b[K"):
				shown = strings.TrimPrefix(rest, "\x1b[K")
			case part != "":
				shown = part
			}
		}
		lines = append(lines, shown)
	}
	return strings.Join(lines, "\n")
}
