package output

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/testneeds"
)

// failures records the calls of Config.Failed.
type failures struct {
	mu      sync.Mutex
	streams []int
	errs    []error
}

func (f *failures) failed(stream int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams = append(f.streams, stream)
	f.errs = append(f.errs, err)
}

func TestStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, stderr := newGate(), &recorder{}
		var credits account
		c := NewConsole(Config{
			Stdout: Destination{W: stuck}, Stderr: Destination{W: stderr},
			Ranks: ranks(2), Consumed: credits.consumed,
		})
		c.Write(0, Stdout, []byte("one\n"))
		<-stuck.entered
		c.Write(1, Stdout, []byte("two\n"))
		c.Write(1, Stdout, []byte("partial"))
		c.Write(0, Stderr, []byte("stderr goes on\n"))
		synctest.Wait()
		assert.Equal(t, "stderr goes on\n", stderr.take())
		assert.Zero(t, credits.of(0, Stdout)+credits.of(1, Stdout), "what has not left gives no credit")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Flush(ctx), context.Canceled)
		require.ErrorContains(t, c.Close(ctx), "write the ranks' output to stdout")

		close(stuck.opened)
		require.NoError(t, c.Close(t.Context()))
		assert.Equal(t, "one\ntwo\npartial", stuck.take())
		assert.Equal(t, 11, credits.of(1, Stdout))
	})
}

func TestHeldBytesGiveCreditWhileNothingIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout recorder
		var credits account
		c := NewConsole(Config{
			Stdout: Destination{W: &stdout}, Stderr: Destination{W: &recorder{}},
			Ranks: ranks(2), Consumed: credits.consumed,
		})
		c.Write(0, Stdout, []byte("a line that could be longer than the window"))
		synctest.Wait()
		assert.Equal(t, 43, credits.of(0, Stdout))
		assert.Empty(t, stdout.take())
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestMemoryIsBounded has senders that use up their credit while the reader is blocked.
func TestMemoryIsBounded(t *testing.T) {
	const window, nranks = 1 << 20, 4
	for _, line := range []int{80, 3 << 19} {
		synctest.Test(t, func(t *testing.T) {
			stuck := newGate()
			var credits account
			c := NewConsole(Config{
				Stdout: Destination{W: stuck}, Stderr: Destination{W: &recorder{}},
				Ranks: ranks(nranks), Consumed: credits.consumed,
			})
			text := append(bytes.Repeat([]byte{'x'}, line-1), '\n')
			var sent [nranks]int
			for range 10 { // each round sends the credit that the previous one returned
				for rank := range nranks {
					sendWindow(c, &credits, rank, text, window, &sent[rank])
				}
				synctest.Wait()
			}
			assert.LessOrEqual(t, retained(c), nranks*(window+MaxLine)+2*blockSize, "lines of %d bytes", line)
			close(stuck.opened)
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// sendWindow sends as much of a rank's endlessly repeated text as its window allows.
func sendWindow(c *Console, credits *account, rank int, text []byte, window int, sent *int) {
	const chunk = 64 << 10
	for *sent-credits.of(rank, Stdout) <= window-chunk {
		at := *sent % len(text)
		n := min(chunk, len(text)-at)
		c.Write(rank, Stdout, text[at:at+n])
		*sent += n
	}
}

// retained returns the number of bytes queued for stdout.
func retained(c *Console) int {
	s := c.sinks[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.queue {
		n += len(b.data)
	}
	for _, l := range c.lanes[0] {
		if l != nil {
			n += len(l.line)
		}
	}
	return n
}

func TestSilentRanksCostNothing(t *testing.T) {
	infos := ranks(500)
	cfg := Config{Stdout: Destination{W: io.Discard}, Stderr: Destination{W: os.Stderr}, Ranks: infos}
	allocs := testing.AllocsPerRun(20, func() {
		_ = NewConsole(cfg).Close(context.Background())
	})
	assert.Less(t, allocs, 30.0, "allocations of a Console for 500 ranks that print nothing")
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, cfg := range map[string]Config{"raw": {}, "labelled": {Label: LabelAlways}} {
		c, credits := discarding(cfg)
		p := []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 800) + "partial")
		allocs := testing.AllocsPerRun(200, func() {
			for rank := range 4 {
				c.Write(rank, Stdout, p)
				credits.wait(len(p))
			}
		})
		assert.Less(t, allocs, 2.0, name)
		require.NoError(t, c.Close(t.Context()))
	}
}

func TestReaderHasGone(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	var failed failures
	var credits account
	c := NewConsole(Config{
		Stdout: Destination{W: w}, Stderr: Destination{W: w},
		Ranks: ranks(2), Consumed: credits.consumed, Failed: failed.failed,
	})
	c.Write(0, Stdout, []byte("a\n"))
	c.Write(0, Stderr, []byte("b\n"))
	require.NoError(t, c.Flush(t.Context()))
	c.Write(0, Stdout, []byte("c\n"))
	require.NoError(t, c.Close(t.Context()))
	assert.Equal(t, []int{Stdout, Stderr}, failed.streams, "each once, since both are the pipe")
	assert.ErrorIs(t, failed.errs[0], unix.EPIPE)
	assert.Equal(t, 4, credits.of(0, Stdout))
	assert.Equal(t, 2, credits.of(0, Stderr))
}

// TestReaderOfDescriptor1HasGone: SIGPIPE would kill a Go program that writes to os.Stdout.
func TestReaderOfDescriptor1HasGone(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	require.NoError(t, cmd.Run())
	assert.Equal(t, "failed 1: broken pipe\nalive\n", stderr.String())
}

func TestDeviceFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testneeds.Skip(t, "devices", err.Error())
	}
	defer full.Close()
	var failed failures
	var stderr recorder
	c := NewConsole(Config{
		Stdout: Destination{W: full}, Stderr: Destination{W: &stderr},
		Ranks: ranks(2), Failed: failed.failed,
	})
	for range 3 {
		c.Write(0, Stdout, []byte("a\n"))
		require.NoError(t, c.Flush(t.Context()))
	}
	c.Write(0, Stderr, []byte("b\n"))
	require.NoError(t, c.Close(t.Context()))
	assert.Equal(t, []int{Stdout}, failed.streams)
	assert.ErrorIs(t, failed.errs[0], unix.ENOSPC)
	assert.Equal(t, "b\n", stderr.take())
}

// TestNonBlockingDestination writes more than a pipe holds to a descriptor that returns EAGAIN.
func TestNonBlockingDestination(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	r, w := os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer")
	require.NoError(t, unix.SetNonblock(fds[1], true), "behind the back of w, which was made blocking")
	defer r.Close()
	c := NewConsole(Config{Stdout: Destination{W: w}, Stderr: Destination{W: &recorder{}}, Ranks: ranks(2)})
	want := strings.Repeat("a line\n", 100_000)
	c.Write(0, Stdout, []byte(want))
	go func() {
		_ = c.Close(context.Background())
		_ = w.Close()
	}()
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.True(t, string(got) == want, "%d bytes of %d", len(got), len(want))
}

// sparing accepts three bytes per write, without an error.
type sparing struct{ recorder }

func (s *sparing) Write(p []byte) (int, error) { return s.recorder.Write(p[:min(3, len(p))]) }

// idle accepts nothing.
type idle struct{}

func (idle) Write([]byte) (int, error) { return 0, nil }

func TestShortWrites(t *testing.T) {
	var slow sparing
	var failed failures
	c := NewConsole(Config{
		Stdout: Destination{W: &slow}, Stderr: Destination{W: idle{}}, Ranks: ranks(2),
		Failed: failed.failed,
	})
	c.Write(0, Stdout, []byte("a longer line\n"))
	c.Write(0, Stderr, []byte("lost\n"))
	require.NoError(t, c.Close(t.Context()))
	assert.Equal(t, "a longer line\n", slow.take())
	assert.Equal(t, []int{Stderr}, failed.streams)
	assert.ErrorIs(t, failed.errs[0], io.ErrShortWrite)
}

func TestSameDestination(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(w.Fd()))
	require.NoError(t, err)
	again := os.NewFile(uintptr(fd), "again")
	defer again.Close()
	var rec recorder
	type uncomparable struct {
		io.Writer
		_ []int
	}
	for _, tt := range []struct {
		name string
		a, b io.Writer
		want bool
	}{
		{"one file", w, w, true},
		{"one pipe twice", w, again, true},
		{"both ends of a pipe are one pipe", w, r, true},
		{"a file and a writer", w, &rec, false},
		{"one writer", &rec, &rec, true},
		{"two writers", &rec, &recorder{}, false},
		{"writers that cannot be compared", uncomparable{}, uncomparable{}, false},
	} {
		assert.Equal(t, tt.want, same(Destination{W: tt.a}, Destination{W: tt.b}), tt.name)
	}
}

// TestSameTerminal opens one terminal twice, and another one once.
func TestSameTerminal(t *testing.T) {
	first, again := openTerminal(t)
	other, _ := openTerminal(t)
	dest := func(f *os.File) Destination { return Destination{W: f, Terminal: true} }
	assert.True(t, same(dest(first), dest(again)))
	assert.False(t, same(dest(first), dest(other)))
	assert.NotZero(t, terminalNumber(first))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.Zero(t, terminalNumber(w))
}

// openTerminal creates a pseudo-terminal and opens it twice.
func openTerminal(t *testing.T) (a, b *os.File) {
	t.Helper()
	head, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testneeds.Skip(t, "devices", err.Error())
	}
	t.Cleanup(func() { _ = head.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(head.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(head.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	var ends [2]*os.File
	for i := range ends {
		ends[i], err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_WRONLY|unix.O_NOCTTY, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}
