package main

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/registry"
)

// Ctrl-Z restores the terminal, and SIGCONT shows the job again. So do q and Ctrl-\ at the end.
func TestTopRestoresTheTerminal(t *testing.T) {
	program, place := ownGorun(t), t.TempDir()
	environ := append(os.Environ(), "XDG_RUNTIME_DIR="+place, "XDG_STATE_HOME="+place, "TERM=xterm")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = environ
		return cmd
	}
	j := command("-n", "1", "cat")
	hold, err := j.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, j.Start())
	t.Cleanup(func() {
		_ = hold.Close()
		_ = j.Wait()
	})
	require.Eventually(t, func() bool {
		return len(registry.Find([]string{place})) == 1
	}, time.Minute, 10*time.Millisecond)

	head, tty := terminal(t)
	start := func() *exec.Cmd {
		top := command("top", registry.Find([]string{place})[0].ID)
		top.Stdin, top.Stdout, top.Stderr = tty, tty, tty
		top.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, top.Start())
		return top
	}
	top := start()
	screen := &reading{from: head}
	screen.until(t, "q leaves")
	assert.False(t, echoes(t, tty))
	_, err = head.WriteString("\x1a")
	require.NoError(t, err)
	var status unix.WaitStatus
	_, err = unix.Wait4(top.Process.Pid, &status, unix.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), status)
	assert.True(t, echoes(t, tty))
	screen.until(t, "\x1b[?1049l")

	require.NoError(t, top.Process.Signal(syscall.SIGCONT))
	screen.until(t, "\x1b[?1049h")
	screen.until(t, "q leaves")
	_, err = head.WriteString("q")
	require.NoError(t, err)
	screen.until(t, "\x1b[?1049l")
	require.NoError(t, top.Wait())
	assert.True(t, echoes(t, tty))

	head, tty = terminal(t)
	top, screen = start(), &reading{from: head}
	screen.until(t, "q leaves")
	_, err = head.WriteString("\x1c")
	require.NoError(t, err)
	screen.until(t, "\x1b[?1049l")
	require.NoError(t, top.Wait())
	assert.True(t, echoes(t, tty))
}

// echoes reports whether a terminal echoes.
func echoes(t *testing.T, tty *os.File) bool {
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return state.Lflag&unix.ECHO != 0
}

// reading reads from a terminal in order.
type reading struct {
	from *os.File
	left []byte
}

// until reads up to a text.
func (r *reading) until(t *testing.T, text string) {
	t.Helper()
	for {
		if _, rest, found := bytes.Cut(r.left, []byte(text)); found {
			r.left = rest
			return
		}
		more := make([]byte, 4096)
		n, err := r.from.Read(more)
		require.NoError(t, err, "%q", r.left)
		r.left = append(r.left, more[:n]...)
	}
}
