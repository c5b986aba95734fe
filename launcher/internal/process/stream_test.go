package process_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/launcher/internal/process"
)

func TestOutputIsWholeAndInOrder(t *testing.T) {
	for _, c := range []struct{ ranks, writes, size int }{{1, 1, 1}, {4, 500, 3000}, {4, 4, 1 << 20}, {70, 20, 100}} {
		t.Run(fmt.Sprintf("%d ranks, %d writes up to %d", c.ranks, c.writes, c.size), func(t *testing.T) {
			g := newGroup(t, 0)
			var ranks []process.Rank
			for id := range c.ranks {
				ranks = append(ranks, piped(id))
			}
			g.run(role("write", fmt.Sprint(c.writes), fmt.Sprint(c.size)), ranks...)
			var out, errs strings.Builder
			for i := range c.writes {
				out.WriteString(strings.Repeat(string(rune('a'+i%26)), 1+(i*7919)%c.size) + "\n")
				fmt.Fprintln(&errs, i)
			}
			for _, r := range ranks {
				require.Equal(t, process.Status{}, g.story(r.ID).status)
				text := g.text(r.ID)
				assert.True(t, text[0] == out.String(), "rank %d: %d bytes, not %d", r.ID, len(text[0]), out.Len())
				assert.Equal(t, errs.String(), text[1])
			}
		})
	}
}

func TestLastWordsBeforeSIGKILL(t *testing.T) {
	for _, size := range []int{0, 1000, 1 << 20} {
		g := newGroup(t, 0)
		g.run(role("words", fmt.Sprint(size)), piped(0), piped(1), piped(2))
		for id := range 3 {
			assert.Equal(t, syscall.SIGKILL, g.story(id).status.Signal)
			assert.Equal(t, strings.Repeat("x", size)+"last words", g.text(id)[0])
		}
		require.NoError(t, g.Close())
	}
}

// A rank's own output precedes its exit, even if a descendant keeps the stream open. The spawner is kept busy
// meanwhile, so that it finds both at once.
func TestWordsComeBeforeExited(t *testing.T) {
	g := newGroup(t, 1)
	r := piped(0)
	release := make(chan struct{})
	g.onOutput = func(id, stream int) {
		if stream == 2 {
			<-release
		}
	}
	g.start(role("gate", "60000"), r)
	g.untilOutput(0, 2, 1)
	pid := g.story(0).pid
	require.Eventually(t, func() bool {
		p, err := process.Describe(pid)
		return err == nil && p.State == 'Z'
	}, patience, 1e6)
	close(release)
	g.until(0, func(s *story) bool { return s.exited })
	assert.Len(t, g.text(0)[0], 61000)
	g.await(r)
}

func TestPauseHoldsRanksBack(t *testing.T) {
	g := newGroup(t, 1)
	g.Pause(1)
	const size = 1 << 20
	r := piped(0)
	// One piece at a time: within Output the spawner itself pauses the stream, before any other goroutine can see the
	// piece and resume it.
	g.beforeOutput = g.Pause
	g.start(role("gate", fmt.Sprint(size)), r)
	g.untilOutput(0, 2, len("begun\n"))
	assert.Empty(t, g.text(0)[0], "stdout was written first")
	g.Resume(2)

	for had := 0; had < 1000+size; {
		require.Len(t, g.text(0)[0], had)
		g.Resume(1)
		had = len(g.untilOutput(0, 1, had+1))
	}
	g.Resume(1)
	g.await(r)
	assert.Len(t, g.text(0)[0], 1000+size)
}

func TestExitIsReportedWhileOutputIsPaused(t *testing.T) {
	g := newGroup(t, 0)
	g.Pause(1)
	r := piped(0)
	g.start(role("words", "100"), r)
	g.until(0, func(s *story) bool { return s.exited })
	assert.Empty(t, g.text(0)[0])
	g.Resume(1)
	g.await(r)
	assert.Equal(t, strings.Repeat("x", 100)+"last words", g.text(0)[0])
}

func TestCloseDeliversPausedOutput(t *testing.T) {
	g := newGroup(t, 0)
	g.Pause(1)
	r := piped(0)
	g.start(role("words", "100"), r)
	g.until(0, func(s *story) bool { return s.exited })
	require.NoError(t, g.Close())
	assert.Equal(t, strings.Repeat("x", 100)+"last words", g.text(0)[0])
}

func TestStdinIsEmptyUnlessGiven(t *testing.T) {
	g := newGroup(t, 0)
	g.run(role("cat"), piped(0), piped(1))
	assert.Equal(t, reported(nil), g.text(1)[0])
	assert.Nil(t, g.Stdin(1))
	assert.Nil(t, g.Stdin(99))
}

// reported returns the output of catRole for text.
func reported(text []byte) string {
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%d %x <nil>\n", len(text), sum[:8])
}

func TestStdinIsFed(t *testing.T) {
	for _, size := range []int{0, 1, 1 << 20} {
		g := newGroup(t, 0)
		fed, empty := piped(0), piped(1)
		fed.Stdin.Kind = process.Pipe
		g.start(role("cat"), fed, empty)
		text := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
		in := g.Stdin(0)
		_, err := in.Write(text)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, in.Close())
		g.await(fed)
		g.await(empty)
		assert.Equal(t, reported(text), g.text(0)[0])
		assert.Equal(t, reported(nil), g.text(1)[0])
		require.NoError(t, g.Close())
	}
}

func TestStdinThatNobodyReads(t *testing.T) {
	g := newGroup(t, 0)
	r := piped(0)
	r.Stdin.Kind = process.Pipe
	g.start(role("deaf"), r)
	g.untilOutput(0, 1, len("closed\n"))
	_, err := g.Stdin(0).Write([]byte("hello"))
	assert.Equal(t, io.ErrClosedPipe, err)

	// Close ends a blocked write to a rank.
	stuck := piped(1)
	stuck.Stdin.Kind = process.Pipe
	g.start(role("wait"), stuck)
	g.untilOutput(1, 1, 2)
	wrote := make(chan error)
	go func() {
		_, err := g.Stdin(1).Write(make([]byte, 1<<20))
		wrote <- err
	}()
	require.NoError(t, g.Close())
	assert.Equal(t, io.ErrClosedPipe, <-wrote)
}

func TestDescriptorsOfOursAreShared(t *testing.T) {
	g := newGroup(t, 0)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	in, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer in.Close()
	_, err = in.WriteAt([]byte("from a file"), 0)
	require.NoError(t, err)
	rank := process.Rank{Stdin: descriptor(int(in.Fd())), Stdout: descriptor(int(w.Fd()))}
	g.run(role("cat"), rank)
	w.Close()
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, reported([]byte("from a file")), string(out))
}

// The launcher's own standard streams get other numbers.
func TestStandardStreamsCanBeSwapped(t *testing.T) {
	launcher := exec.Command(self)
	launcher.Args = role("swap")
	var out, errs strings.Builder
	launcher.Stdout, launcher.Stderr = &out, &errs
	require.NoError(t, launcher.Run())
	assert.Equal(t, []string{"0\n", "a\n"}, []string{out.String(), errs.String()})
}

func TestPseudoTerminal(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		pty := process.Stream{Kind: process.PTY}
		r := process.Rank{Stdin: pty, Stdout: pty, Stderr: process.Stream{Kind: process.Pipe}}
		all := process.Rank{ID: 1, Stdin: pty, Stdout: pty, Stderr: pty}
		g.ResizePTYs(7, 33)
		g.start(role("tty"), r, all)
		for id, third := range []bool{false, true} {
			want := fmt.Sprintf("terminals: true true %v\r\nown: <nil>\r\nsize: 7 33\r\n", third)
			assert.Equal(t, want, g.untilOutput(id, 1, len(want)))
		}
		g.ResizePTYs(50, 132)
		for id := range 2 {
			g.until(id, func(s *story) bool { return bytes.HasSuffix(s.out[1], []byte("resized: 50 132\r\n")) })
			in := g.Stdin(id)
			_, err := io.WriteString(in, "one\ntwo\npart")
			require.NoError(t, err)
			require.NoError(t, in.Close())
		}
		g.await(r)
		g.until(1, func(s *story) bool { return s.exited && s.closed[1] })
		answer := "read: \"one\\n\" <nil>\nread: \"two\\n\" <nil>\nread: \"part\" EOF\n"
		assert.Equal(t, answer, g.text(0)[1])
		assert.Equal(t, process.Status{}, g.story(1).status)
		assert.Contains(t, g.text(1)[0], "read: \"part\" EOF\r\n")
	})
}

func TestPseudoTerminalNeedsStdout(t *testing.T) {
	g := newGroup(t, 0)
	err := g.Start(process.Common{Path: self}, []process.Rank{{Stdin: process.Stream{Kind: process.PTY}}})
	assert.ErrorContains(t, err, "a pseudo-terminal without stdout")
}
