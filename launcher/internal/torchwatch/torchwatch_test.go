package torchwatch

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/internal/peersocket"
	"gorun/internal/testneeds"
)

// The test binary plays a rank: what it does is said by its arguments, each a word, perhaps with a value after a colon.
func TestMain(m *testing.M) {
	if os.Getenv("GORUN_TEST_RANK") == "" {
		os.Exit(m.Run())
	}
	for _, argument := range os.Args[1:] {
		word, value, _ := strings.Cut(argument, ":")
		if err := play[word](value); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test lets go
}

var play = map[string]func(string) error{
	"map":     mapFile,
	"connect": func(port string) error { _, err := connect(port); return err },
	"udp":     func(string) error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); return err },
	"thread":  nameThread,
	"listen":  func(string) error { _, err := listen(); return err },
	"served":  func(string) error { return served() },
	"child":   child,
}

// mapFile maps a file, as the dynamic loader does with a library.
func mapFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	return err
}

// connect tries to connect as PyTorch does, without blocking, and keeps the socket.
func connect(port string) (int, error) {
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}); err == unix.EINPROGRESS {
		err = nil
	}
	return fd, err
}

// nameThread leaves a thread with that name.
func nameThread(name string) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := os.WriteFile("/proc/thread-self/comm", []byte(name), 0)
		result <- err
		select {}
	}()
	return <-result
}

func listen() (port string, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	if err := unix.Listen(fd, 8); err != nil {
		return "", err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return "", err
	}
	port = strconv.Itoa(name.(*unix.SockaddrInet4).Port)
	fmt.Println("port", port)
	return port, nil
}

// served listens and is its own first client, as PyTorch's host is.
func served() error {
	port, err := listen()
	if err == nil {
		_, err = connect(port)
	}
	return err
}

// child does what the words after it say in a process of its own.
func child(words string) error {
	cmd := exec.Command("/proc/self/exe", strings.Split(words, "+")...)
	cmd.Env, cmd.Stdin = os.Environ(), os.Stdin
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

// rank starts the test binary as the leader of a session of its own, and waits until it has done what the words say. It
// returns its process id and the port that it listens at, if any.
func rank(t *testing.T, words ...string) (pid int, port uint16) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", words...)
	cmd.Env = append(os.Environ(), "GORUN_TEST_RANK=1")
	return started(t, cmd)
}

// started starts a command as a rank; it reads its words up to "ready" if it is the test binary.
func started(t *testing.T, cmd *exec.Cmd) (pid int, port uint16) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if !strings.HasSuffix(cmd.Path, "exe") {
		return cmd.Process.Pid, 0
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		number, isPort := strings.CutPrefix(lines.Text(), "port ")
		switch {
		case lines.Text() == "ready":
			return cmd.Process.Pid, port
		case isPort:
			n, err := strconv.ParseUint(number, 10, 16)
			require.NoError(t, err)
			port = uint16(n)
		default:
			t.Fatalf("rank: %s", lines.Text())
		}
	}
	t.Fatal("the rank ended early")
	return 0, 0
}

// library makes a file that looks like PyTorch's library in a list of mappings.
func library(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libtorch_cpu.so")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o644))
	return "map:" + path
}

// socketWith binds a socket to a free port of loopback; with a backlog of -1 nobody can connect to it.
func socketWith(t *testing.T, backlog int) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if backlog >= 0 {
		require.NoError(t, unix.Listen(fd, backlog))
	}
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return strconv.Itoa(name.(*unix.SockaddrInet4).Port)
}

// deaf is a port that answers nobody: its queue is full.
func deaf(t *testing.T) string {
	t.Helper()
	port := socketWith(t, 0)
	for range 4 {
		fd, err := connect(port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	return port
}

func TestCheck(t *testing.T) {
	torch, refused, deaf := library(t), socketWith(t, -1), deaf(t)
	deafPort, err := strconv.Atoi(deaf)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		words []string
		ours  []uint16
		want  *Finding
	}{
		"refused": {words: []string{torch, "connect:" + refused}, want: &Finding{State: Refused}},
		"refused in a child": {
			words: []string{"child:" + torch + "+connect:" + refused}, want: &Finding{State: Refused},
		},
		"refused without PyTorch": {words: []string{"connect:" + refused}},
		"no answer": {
			words: []string{torch, "connect:" + deaf}, want: &Finding{State: Connecting, Port: uint16(deafPort)},
		},
		"no answer from our port":    {words: []string{torch, "connect:" + deaf}, ours: []uint16{uint16(deafPort)}},
		"connected elsewhere":        {words: []string{torch, "connect:" + socketWith(t, 8)}},
		"no socket":                  {words: []string{torch}},
		"unconnected UDP":            {words: []string{torch, "udp"}},
		"a host, alone with PyTorch": {words: []string{torch, "thread:pt_tcpstore_uv", "served"}},
		"both, and the worse is reported": {
			words: []string{torch, "connect:" + deaf, "connect:" + refused}, want: &Finding{State: Refused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pid, _ := rank(t, test.words...)
			found, ok := Check([]int{pid}, test.ours)
			require.Equal(t, test.want != nil, ok, "%v", found)
			if !ok {
				return
			}
			require.Equal(t, pid, sessionOf(found.PID))
			if !strings.HasPrefix(test.words[0], "child") {
				require.Equal(t, pid, found.PID)
			}
			require.Equal(t, test.want.State, found.State)
			require.Equal(t, test.want.Port, found.Port)
		})
	}
}

func TestCheckHosts(t *testing.T) {
	torch := library(t)
	other, _ := rank(t, torch)
	host, port := rank(t, torch, "thread:pt_tcpstore_uv", "served")
	found, ok := Check([]int{other, host}, nil)
	require.True(t, ok)
	require.Equal(t, Finding{PID: host, State: Hosting, Port: port}, found)

	_, ok = Check([]int{other, host}, []uint16{port})
	require.False(t, ok, "our own port")

	client, _ := rank(t, torch, "connect:"+strconv.Itoa(int(port)))
	_, ok = Check([]int{other, host, client}, nil)
	require.False(t, ok, "another process is connected")

	server, _ := rank(t, torch, "listen")
	_, ok = Check([]int{other, server}, nil)
	require.False(t, ok, "a server without a store")
}

// A process that has ended is passed over, even if nobody has waited for it.
func TestCheckPassesOverTheDead(t *testing.T) {
	pid, _ := rank(t, library(t), "connect:"+socketWith(t, -1))
	require.NotEmpty(t, observe([]int{pid}, nil))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	_, ok := Check([]int{pid}, nil)
	require.False(t, ok)
	_, ok = Check(nil, nil)
	require.False(t, ok)
}

// withPorts is a socket of which these facts alone matter.
func withPorts(local, remote uint16, state int) peersocket.Socket {
	return peersocket.Socket{
		Local: netip.AddrPortFrom(netip.Addr{}, local), Remote: netip.AddrPortFrom(netip.Addr{}, remote), State: state,
	}
}

func TestTable(t *testing.T) {
	rows := tableOf(peersocket.ParseTable(`
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3039 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:BC0E 0100007F:3039 02 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
   2: 0100007F:BC0F 0100007F:3039 06 00000000:00000000 03:00001674 00000000     0        0 0 3 0
   3: half a line
   4: 00000000000000000000000000000000:FFFF 0000000000000000FFFF00000100007F:0001 01 00000000:00000000 ` +
		`00:00000000 00000000     0        0 4713 1 0
`))
	for inode, s := range rows {
		rows[inode] = withPorts(s.Local.Port(), s.Remote.Port(), s.State)
	}
	require.Equal(t, table{
		4711: withPorts(12345, 0, unix.BPF_TCP_LISTEN),
		4712: withPorts(48142, 12345, unix.BPF_TCP_SYN_SENT),
		4713: withPorts(65535, 1, unix.BPF_TCP_ESTABLISHED),
	}, rows)
}

// A client on another host has no row here: only the host's end of the connection tells.
func TestIsServing(t *testing.T) {
	own := table{
		1: withPorts(80, 0, unix.BPF_TCP_LISTEN), 2: withPorts(80, 9, unix.BPF_TCP_ESTABLISHED),
		3: withPorts(9, 80, unix.BPF_TCP_ESTABLISHED),
	}
	p := process{sockets: []socket{{inode: 1}, {inode: 2}, {inode: 3}, {inode: 4}}}
	require.False(t, p.isServing(80, own))
	own[4] = withPorts(80, 7, unix.BPF_TCP_ESTABLISHED)
	require.True(t, p.isServing(80, own), "from elsewhere")
	own[4] = withPorts(80, 7, unix.BPF_TCP_SYN_SENT)
	require.False(t, p.isServing(80, own))
	own[5] = withPorts(6, 80, unix.BPF_TCP_ESTABLISHED)
	require.True(t, p.isServing(80, own), "from this host, not accepted yet")
}

func TestFindingString(t *testing.T) {
	require.Equal(t, "process 7 keeps trying to reach a store where nobody listens", Finding{PID: 7}.String())
	require.Equal(t,
		"no rank has come to gorun's store yet, and process 7 keeps trying to reach a store where nobody listens; "+
			"if the program sets MASTER_PORT itself, add `--store=rank0`", Finding{PID: 7}.Notice())
	require.Equal(t, "process 7 gets no answer from port 12355 of another store", Finding{7, Connecting, 12355}.String())
	require.Equal(t, "process 7 hosts a store of its own at port 12355, which nobody has come to",
		Finding{7, Hosting, 12355}.String())
}

// Real PyTorch does what the package says about it.
func TestCheckPyTorch(t *testing.T) {
	python := testneeds.Torch(t)
	refused := socketWith(t, -1)
	for name, test := range map[string]struct {
		script string
		state  State
		ranks  int
	}{
		"clients":        {"client.py", Refused, 1},
		"spawned":        {"spawn.py", Refused, 1},
		"a host, and so": {"host.py", Hosting, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var pids []int
			for i := range test.ranks {
				cmd := exec.Command(python, filepath.Join("testdata", test.script), refused)
				cmd.Env = append(os.Environ(), "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RUN_ID=x",
					fmt.Sprint("RANK=", i), "WORLD_SIZE=2",
					"LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1")
				pid, _ := started(t, cmd)
				pids = append(pids, pid)
			}
			require.Eventually(t, func() bool {
				found, ok := Check(pids, nil)
				return ok && found.State == test.state
			}, 5*time.Minute, 200*time.Millisecond)
		})
	}
}
