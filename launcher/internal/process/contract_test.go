package process_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
	"gorun/launcher/internal/process/kernel"
)

// Programs that change nothing about these properties, as a Go program would, show what a rank inherits through the
// launcher.

// launched runs program as the only rank of a new launcher process and returns its output. prepare can change how the
// launcher starts.
func launched(t *testing.T, prepare func(*exec.Cmd), program ...string) string {
	t.Helper()
	launcher := exec.Command(self)
	launcher.Args = role("launch", program...)
	prepare(launcher)
	out, err := launcher.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestNoDescriptorLeaksIntoRanks(t *testing.T) {
	out := launched(t, func(cmd *exec.Cmd) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { r.Close(); w.Close() })
		cmd.ExtraFiles = []*os.File{r, nil, w} // descriptors 3 and 5 of the launcher
	}, "/bin/ls", "/proc/self/fd")
	assert.Equal(t, "0\n1\n2\n3\n", out, "3 is ls's own")

	require.NoError(t, process.SealInherited())
	g := newGroup(t, 0)
	var ranks []process.Rank
	for id := range 9 {
		r := piped(id)
		r.Stdin.Kind = process.Pipe
		ranks = append(ranks, r)
	}
	require.NoError(t, g.Start(process.Common{Path: "/bin/ls", Argv: []string{"ls", "/proc/self/fd"}}, ranks))
	for _, r := range ranks {
		g.await(r)
		assert.Equal(t, "0\n1\n2\n3\n", g.text(r.ID)[0])
	}
}

func TestSealingWithoutCloseRange(t *testing.T) {
	fd, err := unix.Dup(2) // stays open across exec
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, process.SealEach())
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
	flags, err = unix.FcntlInt(2, unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Zero(t, flags)
}

func TestClosedStandardStreamsAreNoTrouble(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	launcher := exec.Command(self)
	launcher.Args = role("launch", "/bin/ls", "/proc/self/fd")
	// Only descriptor 1 is open in the launcher.
	p, err := os.StartProcess(self, launcher.Args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, w}})
	require.NoError(t, err)
	w.Close()
	out := make([]byte, 64)
	n, _ := r.Read(out)
	assert.Equal(t, "0\n1\n2\n3\n", string(out[:n]))
	state, err := p.Wait()
	require.NoError(t, err)
	assert.Zero(t, state.ExitCode())
}

func TestLimitOfOpenFilesIsTheUsers(t *testing.T) {
	out := launched(t, func(cmd *exec.Cmd) {
		cmd.Args = append(role("limited", "64", "512"), cmd.Args...)
	}, "/bin/cat", "/proc/self/limits")
	assert.Regexp(t, `Max open files +64 +512 `, out)

	out = launched(t, func(cmd *exec.Cmd) {
		cmd.Args = append(role("limited", "300", "300"), cmd.Args...)
	}, "/bin/cat", "/proc/self/limits")
	assert.Regexp(t, `Max open files +300 +300 `, out, "nothing to restore")
}

func TestUmaskIsTheUsers(t *testing.T) {
	was := syscall.Umask(0o27)
	defer syscall.Umask(was)
	g := newGroup(t, 0)
	r := piped(0)
	require.NoError(t, g.Start(process.Common{Path: "/bin/cat", Argv: []string{"cat", "/proc/self/status"}},
		[]process.Rank{r}))
	g.await(r)
	assert.Contains(t, g.text(0)[0], "\nUmask:\t0027\n")
}

// The launcher handles SIGUSR2. It was started with SIGUSR1 blocked and SIGHUP ignored, as by nohup.
func TestSignalsAreTheUsers(t *testing.T) {
	status := launched(t, func(cmd *exec.Cmd) {
		cmd.Args = append(role("hushed"), cmd.Args...)
	}, "/bin/cat", "/proc/self/status")
	for _, want := range []string{"SigBlk:\t0000000000000200", "SigCgt:\t0000000000000000"} {
		assert.Contains(t, status, "\n"+want+"\n")
	}
	// Signals 32 and 33 belong to the C library; the process that runs the test may ignore them.
	const ofLibc = 1<<31 | 1<<32
	_, ignored, _ := strings.Cut(status, "\nSigIgn:\t")
	ignored, _, _ = strings.Cut(ignored, "\n")
	mask, err := strconv.ParseUint(ignored, 16, 64)
	require.NoError(t, err)
	assert.EqualValues(t, 1, mask&^ofLibc, "SIGHUP alone")
}

func TestSignalsAreResetWithoutClone3(t *testing.T) {
	g := newGroup(t, 0)
	g.Use(kernel.ClonePidfd)
	r := piped(0)
	require.NoError(t, g.Start(process.Common{Path: "/bin/cat", Argv: []string{"cat", "/proc/self/status"}},
		[]process.Rank{r}))
	g.await(r)
	for _, want := range []string{"SigBlk:\t0000000000000000", "SigCgt:\t0000000000000000"} {
		assert.Contains(t, g.text(0)[0], "\n"+want+"\n")
	}
}
