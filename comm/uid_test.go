package comm_test

import (
	"bytes"
	"context"
	"errors"
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
	"golang.org/x/sys/unix"

	"gorun/comm"
	"gorun/internal/testneeds"
	"gorun/rendezvous/tcpstore"
)

// otherUser is a UID without files or processes.
const otherUser = 54321

// others contains the actions of a process of another user, by role. The process prints "ready" and runs until the test
// ends.
var others = map[string]func() error{
	"other listens":     func() error { return otherListens(func(net.Conn) {}) },
	"other lies":        func() error { return otherListens(func(c net.Conn) { io.WriteString(c, "192.0.2.1:53") }) },
	"other talks":       func() error { return otherListens(talk) },
	"other only binds":  otherBinds,
	"other fills":       otherFills,
	"other serves":      otherServes,
	"other asks":        otherAsks,
	"other reads ranks": otherReads,
	"other dials":       otherDials,
}

func talk(conn net.Conn) {
	for err := error(nil); err == nil; {
		_, err = conn.Write(make([]byte, 1<<16))
	}
}

// asOther starts the test binary as another user, in a role.
func asOther(t *testing.T, role string, args ...string) *process {
	t.Helper()
	testneeds.Root(t)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), roleVariable+"="+role), "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	return run(t, 0, cmd)
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.output.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// ready prints "ready" with the first name and waits for the end of the test.
func ready() error {
	fmt.Println("ready", names()[0])
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// names returns the socket names of root's ranks that this process's parent starts. It includes both groups that
// neighbour joins, and the longer names that rank 0 may use.
func names() (all []string) {
	for _, place := range []string{"/1", "/2"} {
		name, err := comm.SiblingName(0, place)
		if err != nil {
			panic(err)
		}
		all = append(all, name, name+"-decoy")
	}
	return all
}

func otherListens(answer func(net.Conn)) error {
	for _, name := range names() {
		listener, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go answer(conn) // leaves the connection open
			}
		}()
	}
	return ready()
}

func otherBinds() error {
	for _, name := range names() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return err
		}
	}
	return ready()
}

// otherFills listens with full backlogs.
func otherFills() error {
	for _, name := range names() {
		address := &unix.SockaddrUnix{Name: name}
		var fds [3]int
		for i := range fds {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			fds[i] = fd
		}
		if err := unix.Bind(fds[0], address); err != nil {
			return err
		}
		if err := unix.Listen(fds[0], 0); err != nil {
			return err
		}
		if err := unix.Connect(fds[1], address); err != nil {
			return err
		}
		if err := unix.Connect(fds[2], address); err != unix.EAGAIN {
			return fmt.Errorf("the queue is not full: %v", err)
		}
	}
	return ready()
}

// Another user listens on the name that ranks use, and on names like the longer ones that rank 0 then selects.
func TestAnotherUserHasTheName(t *testing.T) {
	testneeds.Root(t)
	unset(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, role := range []string{"other listens", "other lies", "other talks", "other only binds", "other fills"} {
		t.Run(role, func(t *testing.T) {
			require.Contains(t, asOther(t, role).line(t), "ready @gorun-comm-")
			neighbours(t, exec.Command(self), exec.Command(self), exec.Command(self))
		})
	}
}

// If rank 0 does not arrive, the error names the user that has the name.
func TestAnotherUserIsNamed(t *testing.T) {
	testneeds.Root(t)
	unset(t)
	other := asOther(t, "other talks")
	name := strings.TrimPrefix(other.line(t), "ready ")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := comm.AskAddress(ctx, name)
	require.EqualError(t, err,
		fmt.Sprintf("context deadline exceeded, and process %d at the group's socket is user %d, not 0",
			other.cmd.Process.Pid, otherUser))
}

// otherAsks requests the store's address from rank 0.
func otherAsks() error {
	for {
		conn, err := net.Dial("unix", names()[0])
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		received, err := io.ReadAll(conn)
		fmt.Printf("received %q %v\n", received, err)
		return nil
	}
}

func TestAnotherUserAsksForTheStore(t *testing.T) {
	testneeds.Root(t)
	unset(t)
	self, err := os.Executable()
	require.NoError(t, err)
	ranks := make([]*process, 2)
	for rank := range ranks {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleVariable+"=neighbour", fmt.Sprint("PMI_RANK=", rank), "PMI_SIZE=2")
		ranks[rank] = run(t, rank, cmd)
		if rank == 0 {
			require.Equal(t, `received "" <nil>`, asOther(t, "other asks").line(t))
		}
	}
	require.Equal(t, "0 2 3 <nil> <nil>", ranks[0].line(t))
}

// otherServes runs a store on the given host.
func otherServes() error {
	server, err := tcpstore.Listen(tcpstore.Config{Host: os.Args[1]})
	if err != nil {
		return err
	}
	fmt.Println(server.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, server.Close())
}

// Another user runs a store on MASTER_PORT before rank 0 starts.
func TestAnotherUserServesTheStore(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1", "::"} {
		other := asOther(t, "other serves", host)
		served := other.line(t)
		_, port, err := net.SplitHostPort(served)
		require.NoError(t, err)
		dialled := net.JoinHostPort(map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"}[host], port)
		_, err = comm.Join(t.Context(), comm.WithRank(0, 2), comm.WithStore(dialled), comm.WithTimeout(200*time.Millisecond))
		require.ErrorContains(t, err,
			fmt.Sprintf("the port of the store, %s, is taken by user %d: set MASTER_PORT to a port that is free", dialled,
				otherUser))
	}
}

// otherDials writes to the given store.
func otherDials() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := tcpstore.Dial(ctx, os.Args[1])
	if err == nil {
		err = errors.Join(client.Set(ctx, "key", []byte("value")), client.Close())
	}
	fmt.Println("refused:", err != nil)
	return nil
}

// Rank 0's store accepts only processes of its user.
func TestAnotherUserAtTheStoreOfRankZero(t *testing.T) {
	testneeds.Root(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String() // free after Close
	require.NoError(t, listener.Close())
	joined := make(chan error, 2)
	join := func(rank int) {
		g, err := comm.Join(t.Context(), comm.WithRank(rank, 2), comm.WithStore(address), comm.WithTimeout(patience))
		if err == nil {
			err = errors.Join(comm.Barrier(t.Context(), g), g.Close())
		}
		joined <- err
	}
	go join(0)
	client, err := tcpstore.Dial(t.Context(), address) // waits for the store
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.Equal(t, "refused: true", asOther(t, "other dials", address).line(t))
	go join(1)
	require.NoError(t, errors.Join(<-joined, <-joined))
}

// otherReads tries to open the memory that the ranks with these PIDs share.
func otherReads() error {
	for _, pid := range os.Args[1:] {
		for _, way := range []string{"fd", "map_files", "mem"} {
			path := filepath.Join("/proc", pid, way)
			_, err := os.ReadDir(path)
			if way == "mem" {
				_, err = os.Open(path)
			}
			fmt.Println(way, os.IsPermission(err))
		}
	}
	return ready()
}

// The ranks' shared memory has no name that another user can open, create first or replace.
func TestAnotherUserReachesNoMemory(t *testing.T) {
	ranks := start(t, "loop", 2, place{Call: "AllReduce", Count: 100_000, Timeout: patience})
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", ranks[1].cmd.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, string(maps), "/memfd:gorun-comm (deleted)", "there is memory to look for")
	require.NotContains(t, string(maps), "/dev/shm/")
	other := asOther(t, "other reads ranks", fmt.Sprint(ranks[0].cmd.Process.Pid), fmt.Sprint(ranks[1].cmd.Process.Pid))
	for range ranks {
		for _, way := range []string{"fd", "map_files", "mem"} {
			assert.Equal(t, way+" true", other.line(t))
		}
	}
	for _, r := range ranks {
		r.say(t, "go")
	}
}

// Join accepts the job's key file only if no other user can read or write it.
func TestKeyFile(t *testing.T) {
	testneeds.Root(t)
	dir := t.TempDir()
	write := func(name string, size int, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("k"), size), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, os.Chown(path, uid, uid))
		return path
	}
	good := write("good", 32, 0o600, 0)
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for path, want := range map[string]string{
		good:                              "",
		write("read-only", 32, 0o400, 0):  "",
		write("group", 32, 0o640, 0):      "group has mode 0640: other users can read or change it\ntry: chmod go= ",
		write("writable", 32, 0o602, 0):   "writable has mode 0602: other users can read or change it",
		write("theirs", 32, 0o600, 54321): "theirs belongs to user 54321, neither to this one (0) nor to root",
		write("long", 5000, 0o600, 0):     "long has 5000 bytes, a key at most 4096",
		fifo:                              "fifo is not a regular file",
		filepath.Join(dir, "missing"):     "no such file or directory",
	} {
		key, err := comm.ReadKey(path)
		if want == "" {
			require.NoError(t, err)
			require.Len(t, key, 32)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "kkk")
	}
}
