package process_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
)

// talkRole sends each of its arguments to descriptor 3 in one write. Then it prints the answers until the other end
// is closed.
func talkRole(words []string) {
	flags, err := unix.FcntlInt(3, unix.F_GETFL, 0)
	if err != nil {
		panic(err)
	}
	for _, w := range words {
		if _, err := unix.Write(3, []byte(w)); err != nil {
			panic(err)
		}
	}
	answer, err := io.ReadAll(os.NewFile(3, "socket"))
	fmt.Println(flags&unix.O_NONBLOCK != 0, string(answer), err)
}

func withSockets(program string, argv ...string) process.Common {
	return process.Common{Env: os.Environ(), Path: program, Argv: argv, Sockets: true}
}

// conversation returns the other end of a rank's socket.
func (g group) conversation(id int) net.Conn {
	g.t.Helper()
	g.until(id, func(s *story) bool { return s.socketFD != 0 })
	fd := g.story(id).socketFD
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(g.t, err)
	assert.Equal(g.t, unix.FD_CLOEXEC, flags)
	f := os.NewFile(uintptr(fd), "rank's")
	defer f.Close()
	conn, err := net.FileConn(f)
	require.NoError(g.t, err)
	return conn
}

func TestRanksTalkAtDescriptor3(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		var ranks []process.Rank
		for id := range 9 {
			r := piped(id)
			r.Argv = role("talk", "I am ", strconv.Itoa(id))
			ranks = append(ranks, r)
		}
		require.NoError(t, g.Start(withSockets(self), ranks))
		for _, r := range ranks {
			conn := g.conversation(r.ID)
			want := fmt.Sprintf("I am %d", r.ID)
			got := make([]byte, len(want))
			_, err := io.ReadFull(conn, got)
			require.NoError(t, err)
			assert.Equal(t, want, string(got))
			_, err = fmt.Fprintf(conn, "and I read %d", r.ID)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			g.await(r)
			assert.Equal(t, fmt.Sprintf("false and I read %d <nil>\n", r.ID), g.text(r.ID)[0])
		}
	})
}

// The last data of a rank that ends at once is not lost, and arrives before its end.
func TestLastWordsAtDescriptor3(t *testing.T) {
	g := newGroup(t, 0)
	var ranks []process.Rank
	for id := range 20 {
		ranks = append(ranks, piped(id))
	}
	require.NoError(t, g.Start(withSockets("/bin/sh", "sh", "-c", "printf bye >&3"), ranks))
	for _, r := range ranks {
		g.await(r)
		require.NotZero(t, g.story(r.ID).socketFD, "it had ended before it spoke")
		conn := g.conversation(r.ID)
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, "bye", string(said))
		require.NoError(t, conn.Close())
	}
}

// A rank that never writes to its socket costs a descriptor while it runs, and the sink gets no call.
func TestSilentSocketsAreClosed(t *testing.T) {
	g := newGroup(t, 1)
	before := openFiles(t)
	var ranks []process.Rank
	for id := range 20 {
		r := process.Rank{ID: id}
		if id%2 == 1 { // a descendant holds its end of the socket longer
			r.Path, r.Argv = "/bin/sh", []string{"sh", "-c", "sleep 600 & exit 3"}
		}
		ranks = append(ranks, r)
	}
	require.NoError(t, g.Start(withSockets("/bin/true", "true"), ranks))
	for _, r := range ranks {
		g.await(r)
		assert.Zero(t, g.story(r.ID).socketFD)
		defer func() { _ = unix.Kill(-g.story(r.ID).pid, unix.SIGKILL) }()
	}
	assert.Eventually(t, func() bool {
		return openFiles(t) <= before+10+5
	}, patience, 1e6, "ten are held, and what the group has itself")
}

func TestDescriptorsOfRanksWithSockets(t *testing.T) {
	eachWay(t, func(t *testing.T, g group) {
		var ranks []process.Rank
		for id := range 9 {
			ranks = append(ranks, piped(id))
		}
		require.NoError(t, g.Start(withSockets("/bin/ls", "ls", "/proc/self/fd"), ranks))
		for _, r := range ranks {
			g.await(r)
			assert.Equal(t, "0\n1\n2\n3\n4\n", g.text(r.ID)[0], "4 is ls's own")
		}
	})
}

// With 0, 1 and 2 closed in the launcher, its own ends first get these numbers. If descriptor 3 is among the streams,
// it is overwritten after it was read.
func TestSocketsBesideStreams(t *testing.T) {
	var files []*os.File
	for range 8 { // one of them is 3 to 10, whichever are free
		f, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	g := newGroup(t, 0)
	var ranks []process.Rank
	for id, f := range files {
		ranks = append(ranks, process.Rank{ID: id, Stdout: descriptor(int(f.Fd()))})
	}
	require.NoError(t,
		g.Start(withSockets("/bin/sh", "sh", "-c", "echo streams; [ -S /proc/self/fd/3 ] && echo socket"), ranks))
	for id, f := range files {
		g.await(ranks[id])
		text, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		assert.Equal(t, "streams\nsocket\n", string(text))
	}
}

func TestClosedStandardStreamsAndSockets(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := os.StartProcess(self, role("shell", `ls /proc/self/fd | tr '\n' ' '`),
		&os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, w}})
	require.NoError(t, err)
	w.Close()
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "0 1 2 3 4 ", string(out))
	state, err := p.Wait()
	require.NoError(t, err)
	assert.Zero(t, state.ExitCode())
}

// shellRole is a launcher of one rank with a socket, which shares its stdout.
func shellRole(args []string) {
	if err := process.SealInherited(); err != nil {
		panic(err)
	}
	launch(process.Rank{Stdout: descriptor(1)}, withSockets("/bin/sh", "sh", "-c", strings.Join(args, " ")))
}
