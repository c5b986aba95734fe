package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
	"gorun/launcher/internal/reach/remote"
)

// folder contains the programs to copy. TestMain fills it.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "gorun-bootstrap-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// layerShells are login shells other than sh.
const layerShells testneeds.Layer = "shells"

// shells runs a test with each login shell in which the line must have the same meaning.
func shells(t *testing.T, each func(t *testing.T, shell string)) {
	for _, shell := range []string{"sh", "fish", "tcsh", "bash", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			each(t, testneeds.Program(t, layerShells, shell))
		})
	}
}

// machine imitates a host on this one, with its own home directory and login shell.
type machine struct {
	t       *testing.T
	mu      sync.Mutex
	shell   []string // the command that runs the line, which is appended
	home    string
	environ []string // additional variables
	cut     int      // bytes that reach its standard input, 0: all
	mute    bool     // the input stays open then, as after a cut cable
	lost    error    // of its connection, when a process has ended; nil: it lasts
	ran     []*process
}

func newMachine(t *testing.T, shell string) *machine {
	return &machine{t: t, shell: []string{shell, "-c"}, home: t.TempDir()}
}

func (m *machine) Name() string { return "node1" }
func (m *machine) Close() error { return nil }

func (m *machine) env() []string {
	return append([]string{"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + m.home + "/tmp"}, m.environ...)
}

func (m *machine) Start(_ context.Context, line string) (remote.Process, error) {
	p := &process{cmd: exec.Command(m.shell[0], append(m.shell[1:], line)...), left: m.cut, mute: m.mute, lost: m.lost}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = m.env(), m.home, &p.stderr
	p.in, _ = p.cmd.StdinPipe()
	p.out, _ = p.cmd.StdoutPipe()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.ran = append(m.ran, p)
	m.mu.Unlock()
	m.t.Cleanup(func() { p.Close(); p.Wait() })
	return p, nil
}

// settled waits until all processes have ended, once their streams are closed.
func (m *machine) settled() {
	for _, p := range m.ran {
		p.Wait()
	}
}

// cached lists the files below the home directory's cache.
func (m *machine) cached() (names []string) {
	root := filepath.Join(m.home, ".cache", "gorun")
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	return names
}

// process is a local command as a remote.Process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr safeBuffer
	left   int
	mute   bool
	lost   error
	held   []byte
	wait   sync.Once
	end    error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var announces = regexp.MustCompile(`^\d+ \w*\n$`)

func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

func (p *process) Write(b []byte) (int, error) {
	if p.left == 0 {
		p.held = append(p.held, b...)
		if announces.Match(b) { // the line before a file, which arrives with it: nothing may read ahead
			return len(b), nil
		}
		_, err := p.in.Write(p.held)
		p.held = nil
		return len(b), err
	}
	if len(b) < p.left {
		p.left -= len(b)
		return p.in.Write(b)
	}
	p.in.Write(b[:p.left])
	if !p.mute {
		p.in.Close()
	}
	return 0, io.ErrClosedPipe
}

func (p *process) CloseWrite() error { return p.in.Close() }
func (p *process) Stderr() string    { return p.stderr.String() }

func (p *process) Wait() error {
	p.wait.Do(func() { p.end = p.cmd.Wait() })
	err := cmp.Or(p.lost, p.end)
	if e, ok := err.(*exec.ExitError); ok {
		return &remote.ExitError{Code: e.ExitCode()}
	}
	return err
}

func (p *process) Close() error {
	p.in.Close()
	return p.out.Close()
}

// agent is a small program that prints its arguments and then echoes its input. The test binary would be ten times as
// large, and starts slowly with the race detector.
var agent = sync.OnceValues(func() (Program, error) {
	path := filepath.Join(folder, "agent")
	build := exec.Command("go", "build", "-o", path, "./testdata/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return Program{}, fmt.Errorf("%w: %s", err, out)
	}
	content, err := os.ReadFile(path)
	packed := frame(content)
	index := fmt.Sprintf("%s %d %x %x\n", runtime.GOARCH, len(content), sum(content), sum(packed))
	return Program{Version: "v1.2-test", Builds: agentsOf(index, map[string]string{runtime.GOARCH: string(packed)})}, err
})

// frame returns a zstd frame that repeats the content as it is (RFC 8878).
func frame(content []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, uint32(len(content)))
	for len(content) > 0 {
		n := min(len(content), 128<<10)
		header := uint32(n << 3)
		if n == len(content) {
			header |= 1 // the last block
		}
		b = append(b, byte(header), byte(header>>8), byte(header>>16))
		b, content = append(b, content[:n]...), content[n:]
	}
	return b
}

func config(t *testing.T, args ...string) Config {
	p, err := agent()
	require.NoError(t, err)
	return Config{Program: p, Args: append([]string{"agent"}, args...), Limit: time.Minute}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// echoes requires that the stream belongs to the agent with these arguments and contains nothing else.
func echoes(t *testing.T, s *Stream, args ...string) {
	t.Helper()
	want := fmt.Sprintf("%q\n\x00\xff frame\n", append([]string{"agent"}, args...))
	_, err := s.Write([]byte("\x00\xff frame\n"))
	require.NoError(t, err)
	require.NoError(t, s.CloseWrite())
	got, err := io.ReadAll(s)
	require.NoError(t, err, s.Stderr())
	require.Equal(t, want, string(got))
	require.NoError(t, s.Wait())
}

// hasStep requires an error of that step whose text contains all parts.
func hasStep(t *testing.T, err error, step remote.Step, parts ...string) {
	t.Helper()
	var known *remote.Error
	require.ErrorAs(t, err, &known)
	require.Equal(t, step.String(), known.Step.String(), err)
	for _, part := range parts {
		require.Contains(t, err.Error(), part)
	}
}

// TestColdThenWarm also shows that the compressed program is sent.
func TestColdThenWarm(t *testing.T) {
	shells(t, func(t *testing.T, shell string) {
		m := newMachine(t, shell)
		var states []remote.Progress
		c := config(t)
		ctx := remote.WithProgress(deadline(t), func(s remote.Progress) { states = append(states, s) })
		sent, _ := c.Program.Builds[0].parcel("zstd")
		size := sent.size
		for _, cold := range []bool{true, false} {
			states = nil
			s, err := Start(ctx, m, c)
			require.NoError(t, err)
			echoes(t, s)
			copied := slices.ContainsFunc(states, func(s remote.Progress) bool {
				return s.Step == remote.StepCopy && s.Sent == s.Total && s.Sent == size
			})
			require.Equal(t, cold, copied, states)
			require.True(t, states[len(states)-1].Running)
			require.Len(t, m.cached(), 1)
		}
	})
}
