package registry

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gorun/internal/testneeds"
)

// roleVariable makes the test binary another process.
const roleVariable = "REGISTRY_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "serve": // until it is killed
		_, err := Register(os.Args[1:2], os.Args[2], ignore, describe)
		fmt.Println(err)
		select {}
	case "look":
		fmt.Println(look(os.Args[1], os.Args[2]))
	}
}

// look says what a user finds in a place, and receives at a path.
func look(place, path string) string {
	found := Find([]string{place})
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Sprintf("%d jobs, refused", len(found))
	}
	defer conn.Close()
	_ = writePart(conn, Request{Kind: JobRequest})
	received, _ := io.ReadAll(conn)
	return fmt.Sprintf("%d jobs, received %q", len(found), received)
}

func ignore(string) {}

// describe answers any question by the question.
func describe(_ context.Context, q Request, send func(any) error) { _ = send(Job{Program: q.Kind}) }

const first, second = "0123456789ab", "0123456789ac"

// register makes an entry for the length of a test.
func register(t *testing.T, place, id string, answer Handler) *Entry {
	e, err := Register([]string{place}, id, ignore, answer)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// private is a directory of this user alone, with a path of at least that length.
func private(t *testing.T, length int) string {
	dir := t.TempDir()
	for len(dir) < length {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
	}
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return dir
}

func ids(found []Handle) (ids []string) {
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	return ids
}

func TestTwoJobs(t *testing.T) {
	place := private(t, 200) // longer than a socket's address
	var announced []string
	e, err := Register([]string{place}, first, func(path string) {
		if announced == nil {
			assert.NoDirExists(t, path, "the caller knows the path to remove beforehand")
		} else {
			assert.DirExists(t, path, "and once more when it is known which directory it is")
		}
		announced = append(announced, path)
	}, describe)
	require.NoError(t, err)
	assert.Equal(t, []string{e.Path(), e.Path()}, announced)
	register(t, place, second, describe)
	found := Find([]string{place, "/no/such/place", place})
	require.Equal(t, []string{first, second}, ids(found))
	job, _, err := Get[Job](t.Context(), found[1], Request{Kind: JobRequest})
	require.NoError(t, err)
	assert.Equal(t, JobRequest, job.Program)

	for path, mode := range map[string]os.FileMode{
		e.Path():                        0o700 | os.ModeDir,
		filepath.Join(e.Path(), socket): 0o600 | os.ModeSocket,
	} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), path)
	}
	e.Close()
	assert.NoDirExists(t, e.Path(), "it goes with the job")
	assert.Equal(t, []string{second}, ids(Find([]string{place})))
	_, _, err = Get[Job](t.Context(), found[0], Request{Kind: JobRequest})
	assert.ErrorIs(t, err, ErrEnded)
}

// What a job leaves that was killed is found and removed by the next look.
func TestDeadSocketIsRemoved(t *testing.T) {
	place := private(t, 0)
	command := exec.Command("/proc/self/exe", place, first)
	command.Env = append(os.Environ(), roleVariable+"=serve")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line := make([]byte, 64)
	n, _ := out.Read(line)
	require.Equal(t, "<nil>\n", string(line[:n]))
	require.Equal(t, []string{first}, ids(Find([]string{place})))
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()
	assert.FileExists(t, filepath.Join(place, prefix+first, socket))
	assert.Empty(t, Find([]string{place}))
	assert.NoDirExists(t, filepath.Join(place, prefix+first))
}

// A directory without a socket is that of a job which is about to make it, for a while.
func TestYoungDirectoryIsLeft(t *testing.T) {
	place := private(t, 0)
	dir := filepath.Join(place, prefix+first)
	require.NoError(t, os.Mkdir(dir, 0o700))
	assert.Empty(t, Find([]string{place}))
	assert.DirExists(t, dir)
	old := time.Now().Add(-2 * startTimeout)
	require.NoError(t, os.Chtimes(dir, old, old))
	assert.Empty(t, Find([]string{place}))
	assert.NoDirExists(t, dir)
}

// Nothing that somebody else could have put there is believed, used or removed.
func TestWhatOthersMade(t *testing.T) {
	place, elsewhere := private(t, 0), private(t, 0)
	register(t, elsewhere, first, describe)
	link := filepath.Join(place, prefix+first)
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, prefix+first), link))
	assert.Empty(t, Find([]string{place}), "a link is no job's directory")
	_, err := Register([]string{place}, first, ignore, describe)
	assert.ErrorIs(t, err, os.ErrExist, "nor does a job follow it")
	_, err = os.Lstat(link)
	assert.NoError(t, err)

	open := filepath.Join(place, prefix+second)
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o755))
	_, err = Handle{second, open}.Do(t.Context(), Request{Kind: JobRequest})
	assert.ErrorIs(t, err, errForeign)
	assert.Empty(t, Find([]string{place}))
	for _, name := range []string{"gorun-job-short", "gorun-job-0123456789AB", "gorun-job-../../etc", "other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(place, filepath.Clean("/"+name)), 0o700))
	}
	assert.Empty(t, Find([]string{place}))
	_, err = Register([]string{place}, "../../../etc", ignore, describe)
	assert.ErrorContains(t, err, "not an id")
}

// An entry that another user planted is neither found nor asked nor removed, though its socket answers and its modes
// let everybody in.
func TestPlantedByAnotherUser(t *testing.T) {
	testneeds.Root(t)
	place, err := os.MkdirTemp("/tmp", "registry-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	require.NoError(t, os.Chmod(place, 0o777|os.ModeSticky))
	command := exec.Command("/proc/self/exe", place, first)
	command.Env = append(os.Environ(), roleVariable+"=serve")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line := make([]byte, 64)
	n, _ := out.Read(line)
	require.Equal(t, "<nil>\n", string(line[:n]))
	planted := filepath.Join(place, prefix+first)
	for _, mode := range []os.FileMode{0o700, 0o777} {
		require.NoError(t, os.Chmod(planted, mode))
		require.NoError(t, os.Chmod(filepath.Join(planted, socket), mode))
		assert.Empty(t, Find([]string{place}), "%o", mode)
		assert.Contains(t, as(t, 54322, "look", place, filepath.Join(planted, socket)), "0 jobs")
		_, _, err = Get[Job](t.Context(), Handle{first, planted}, Request{Kind: JobRequest})
		assert.ErrorIs(t, err, errForeign)
	}
	old := time.Now().Add(-2 * startTimeout)
	require.NoError(t, os.Chtimes(planted, old, old))
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()
	assert.Empty(t, Find([]string{place}))
	assert.FileExists(t, filepath.Join(planted, socket))
	_, err = Register([]string{place}, first, ignore, describe)
	assert.ErrorIs(t, err, os.ErrExist)
}

// A directory where other users can rename our files is refused.
func TestUnfitPlaces(t *testing.T) {
	testneeds.Root(t)
	const other = 54321
	theirs, sticky := private(t, 0), private(t, 0)
	require.NoError(t, os.Chown(theirs, other, other))
	require.NoError(t, os.Chown(sticky, other, other))
	require.NoError(t, os.Chmod(sticky, 0o777|os.ModeSticky))
	_, err := Register([]string{theirs, "/proc/no/such", "/proc/self"}, first, ignore, describe)
	require.ErrorIs(t, err, errForeign)
	assert.ErrorContains(t, err, theirs)
	e, err := Register([]string{theirs, "/proc/no/such", sticky}, first, ignore, describe)
	require.NoError(t, err, "the first that will do is taken")
	defer e.Close()
	assert.Equal(t, filepath.Join(sticky, prefix+first), e.Path())
}

// as runs the test binary as another user.
func as(t *testing.T, uid uint32, role string, args ...string) string {
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := command.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func TestAnotherUser(t *testing.T) {
	testneeds.Root(t)
	place, err := os.MkdirTemp("/tmp", "registry-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	require.NoError(t, os.Chmod(place, 0o777|os.ModeSticky))
	e := register(t, place, first, describe)
	path := filepath.Join(e.Path(), socket)
	assert.Equal(t, "0 jobs, refused", as(t, 54321, "look", place, path))
	// Even where somebody has opened the files to all.
	require.NoError(t, os.Chmod(e.Path(), 0o777))
	require.NoError(t, os.Chmod(path, 0o777))
	assert.Equal(t, `0 jobs, received ""`, as(t, 54321, "look", place, path))
	assert.Equal(t,
		`0 jobs, received "{\"job\":\"\",\"state\":\"\",\"program\":\"job\",\"pid\":0,`+
			`\"started_at\":\"0001-01-01T00:00:00Z\",\"world_size\":0,`+
			`\"running_rank_count\":0,\"hosts\":null,\"at\":\"0001-01-01T00:00:00Z\"}\n"`,
		as(t, 0, "look", place, path), "the question was a good one")
}

// A client that asks nothing, too much or nonsense, or reads nothing, costs a connection for a while.
func TestStrangeClients(t *testing.T) {
	place := private(t, 0)
	answered := make(chan error)
	e := register(t, place, first, func(ctx context.Context, q Request, send func(any) error) {
		if q.Kind == "flood" {
			var err error
			for err == nil {
				err = send(strings.Repeat("x", 1<<16))
			}
			answered <- err
			return
		}
		describe(ctx, q, send)
	})
	for _, said := range []string{"", "\n", "{}", "nonsense\n", strings.Repeat("x", 2*maxRequest), "\x00\xff\n"} {
		conn, err := net.Dial("unix", pathIn(e.dir, socket))
		require.NoError(t, err)
		_, _ = io.WriteString(conn, said)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		received, _ := io.ReadAll(conn)
		assert.Empty(t, received, "%q", said)
		_ = conn.Close()
	}
	stalled, err := Find([]string{place})[0].Do(t.Context(), Request{Kind: "flood"})
	require.NoError(t, err)
	defer stalled.Close()
	_, _, err = Get[Job](t.Context(), Find([]string{place})[0], Request{Kind: JobRequest})
	require.NoError(t, err, "others are answered meanwhile")
	assert.ErrorIs(t, <-answered, os.ErrDeadlineExceeded, "the server gives up")
}

// The end of a job ends all connections, those of who follows with what was sent before.
func TestCloseEndsConnections(t *testing.T) {
	place := private(t, 0)
	e, err := Register([]string{place}, first, ignore, func(ctx context.Context, _ Request, send func(any) error) {
		_ = send(Reply{Whole: true})
		<-ctx.Done()
		_ = send(Reply{Error: "over"})
	})
	require.NoError(t, err)
	a, err := Find([]string{place})[0].Do(t.Context(), Request{Kind: StopRequest})
	require.NoError(t, err)
	defer a.Close()
	assert.Equal(t, os.Getpid(), a.PID)
	var w Reply
	require.NoError(t, a.Next(&w))
	idle, err := net.Dial("unix", pathIn(e.dir, socket))
	require.NoError(t, err)
	defer idle.Close()
	e.Close()
	require.NoError(t, a.Next(&w))
	assert.Equal(t, "over", w.Error)
	assert.ErrorIs(t, a.Next(&w), io.EOF)
	assert.NoDirExists(t, e.Path())
}

// A client that hangs up cancels its request.
func TestHangingUp(t *testing.T) {
	place, ended := private(t, 0), make(chan struct{})
	register(t, place, first, func(ctx context.Context, _ Request, _ func(any) error) { <-ctx.Done(); close(ended) })
	ctx, cancel := context.WithCancel(t.Context())
	a, err := Find([]string{place})[0].Do(ctx, Request{Kind: LogsRequest})
	require.NoError(t, err)
	cancel()
	assert.ErrorIs(t, a.Next(new(Logs)), os.ErrDeadlineExceeded)
	require.NoError(t, a.Close())
	<-ended
}

func TestPlaces(t *testing.T) {
	own := fmt.Sprintf("/run/user/%d", os.Geteuid())
	assert.Equal(t, []string{"/run/x", own, "/scratch", "/tmp"},
		Places("/run/x/", "/scratch", "/tmp", "", "relative", "/tmp/"))
	assert.Equal(t, []string{own, "/tmp"}, Places("", "/tmp"))
}

func TestAnswersHaveALimit(t *testing.T) {
	for size, want := range map[int]string{1 << 16: "", 1<<16 + 1: "an answer of more than 65536 bytes"} {
		text := `"` + strings.Repeat("x", size-3) + "\"\n"
		a := Response{read: bufio.NewReader(strings.NewReader(text + text)), limit: 1 << 16}
		var said string
		if err := a.Next(&said); want != "" {
			assert.EqualError(t, err, want)
		} else {
			require.NoError(t, err)
			assert.Len(t, said, size-3)
		}
	}
}

func FuzzReadQuestion(f *testing.F) {
	f.Add([]byte("{\"ask\":\"stop\",\"signal\":15,\"grace_ns\":0}\n"))
	f.Add([]byte("{\"ask\":\"logs\",\"rank\":-1,\"follow\":true}\n"))
	f.Add([]byte("[[[[\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := readRequest(strings.NewReader(string(text)))
		if err == nil {
			require.LessOrEqual(t, len(q.Kind), maxRequest)
		}
	})
}

// A reader that was too slow for one part gets none of those that follow, and so not the last one either.
func TestNothingFollowsAFailure(t *testing.T) {
	var sent []any
	send := untilError(func(part any) error {
		if part == 2 {
			return errOtherUser
		}
		sent = append(sent, part)
		return nil
	})
	require.NoError(t, send(1))
	require.ErrorIs(t, send(2), errOtherUser)
	require.ErrorIs(t, send(3), errOtherUser)
	require.Equal(t, []any{1}, sent)
}
