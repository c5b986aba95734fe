package faults

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unmet is the reason that a criterion is not met. It is a panic value that [fault.try] recovers.
type unmet string

// scene is one job and its known processes.
type scene struct {
	launcher launcher
	dir      string // directory of the socket, the lifeline and the launcher's output
	mark     string // NAME=VALUE in the environment of every process of the job

	listener net.Listener
	lifeline *os.File
	mutex    sync.Mutex
	members  []*member
	arrived  chan struct{} // receives a value for each new member

	command *exec.Cmd
	ended   chan struct{}
	tty     *terminal
	guards  []process // they carry no mark
	cgroups []string  // folders
}

// member is a process that said hello.
type member struct {
	kind  string // rank or child
	rank  int
	pid   int
	self  process  // it may carry no mark
	group []string // cgroups that gorun made for it
	conn  net.Conn
	words *bufio.Reader
}

// outcome is how a launcher ended.
type outcome struct {
	stdout, stderr string
	code           int // 128 + n for signal n
}

// work describes the job for a launcher.
type work struct {
	ranks   int
	options []string
	program []string // argv of the ranks; see role
	// around is a command prefix, such as a shell, for the launcher.
	around  []string
	environ []string
	stdin   *os.File // nil: /dev/null
	stdout  *os.File // nil: a file of the scene
	tty     *terminal
}

// role is the argv of a rank that plays a role.
func role(name string, args ...string) []string {
	return append([]string{built("rank"), roleArg, name}, args...)
}

// shell is a command line for /bin/sh. "$@" in it is the command that follows.
func shell(line string) []string { return []string{"/bin/sh", "-c", line, "sh"} }

// openScene makes the directory and the socket for the reports of ranks.
func openScene(l launcher) (*scene, error) { return openSceneIn(l, "") }

// openSceneIn makes them in a folder; "" is the folder for temporary files.
func openSceneIn(l launcher, parent string) (*scene, error) {
	dir, err := os.MkdirTemp(parent, "faults-")
	if err != nil {
		return nil, err
	}
	s := &scene{
		launcher: l, dir: dir, mark: markVariable + "=" + rand.Text(), arrived: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	if err := s.open(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go s.receive()
	return s, nil
}

func (s *scene) open() error {
	lifeline, socket := filepath.Join(s.dir, "lifeline"), filepath.Join(s.dir, "s")
	if err := unix.Mkfifo(lifeline, 0o666); err != nil {
		return err
	}
	var err error
	if s.lifeline, err = os.OpenFile(lifeline, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return err
	}
	if s.listener, err = net.Listen("unix", socket); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("report"), nil, 0o600); err != nil {
		return err
	}
	// the launcher and ranks may be other users
	for path, mode := range map[string]os.FileMode{
		s.dir: 0o755, lifeline: 0o666, socket: 0o777, s.path("report"): 0o666,
	} {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(s.dir, "tmp"), 0o700)
}

// close ends the lifeline, so every process that still waits exits.
func (s *scene) close() {
	s.lifeline.Close()
	s.listener.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, m := range s.members {
		m.conn.Close()
	}
	if s.tty != nil {
		s.tty.master.Close()
	}
	os.RemoveAll(s.dir)
}

// fail ends the case.
func (s *scene) fail(format string, values ...any) { panic(unmet(fmt.Sprintf(format, values...))) }

// require ends the case if holds is false.
func (s *scene) require(holds bool, format string, values ...any) {
	if !holds {
		s.fail(format, values...)
	}
}

// receive accepts hellos until the listener is closed.
func (s *scene) receive() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.greet(conn.(*net.UnixConn))
	}
}

// greet reads one hello. The pid comes from the kernel, because a process in a PID namespace sees another pid.
func (s *scene) greet(conn *net.UnixConn) {
	m := &member{conn: conn, words: bufio.NewReader(conn)}
	hello, err := m.words.ReadString('\n')
	if err != nil {
		conn.Close()
		return
	}
	_, _ = fmt.Sscanf(hello, "%s %d", &m.kind, &m.rank)
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				m.pid = int(peer.Pid)
			}
		})
	}
	m.self, _ = read(m.pid)
	m.group = ownGroups(m.pid)
	s.mutex.Lock()
	s.members = append(s.members, m)
	s.mutex.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default: // a notification is already pending
	}
}

// launch starts the launcher.
func (s *scene) launch(w work) {
	if s.launcher.ours {
		w.options = append([]string{"--report", s.path("report")}, w.options...)
	}
	argv := append(slices.Clone(w.around), s.launcher.command(w.ranks, w.options, w.program)...)
	s.command = exec.Command(argv[0], argv[1:]...)
	s.command.Env = append(append(cleanEnvironment(), s.mark, sceneVariable+"="+s.dir, "TMPDIR="+s.temporary(),
		"XDG_STATE_HOME="+s.path("state")), // failures of hosts in other cases do not count
		w.environ...)
	if w.stdin != nil { // a nil *os.File would be a non-nil io.Reader
		s.command.Stdin = w.stdin
	}
	var err error
	if s.command.Stdout = w.stdout; w.stdout == nil {
		s.command.Stdout, err = os.Create(s.path("stdout"))
		s.require(err == nil, "%v", err)
	}
	s.command.Stderr, err = os.Create(s.path("stderr"))
	s.require(err == nil, "%v", err)
	if s.tty = w.tty; w.tty != nil {
		s.command.Stdin, s.command.Stdout, s.command.Stderr = w.tty.slave, w.tty.slave, w.tty.slave
		s.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	s.start()
}

// start starts the command and closes our copies of its files.
func (s *scene) start() {
	if err := s.command.Start(); err != nil {
		s.command = nil
		s.fail("start: %v", err)
	}
	for _, file := range []any{s.command.Stdin, s.command.Stdout, s.command.Stderr} {
		if file, ok := file.(*os.File); ok && file != nil {
			file.Close()
		}
	}
	go func() {
		defer close(s.ended)
		_ = s.command.Wait() // ProcessState holds the status
	}()
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// temporary is the launcher's TMPDIR.
func (s *scene) temporary() string { return s.path("tmp") }

// own makes a user the owner of the launcher's TMPDIR.
func (s *scene) own(user int) {
	err := os.Chown(s.temporary(), user, user)
	s.require(err == nil, "%v", err)
}

// cleanEnvironment is our environment without settings of launchers.
func cleanEnvironment() []string {
	prefixes := []string{
		"GORUN_", "PET_", "TORCH", "OMP_", "MASTER_", "FAULTS_", "PMI", "OMPI_", "SLURM_", "PYTHON",
		"TMPDIR=",
	}
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
	})
}

// await waits for a number of members of a kind and returns them in rank order.
func (s *scene) await(kind string, number int) []*member {
	late := time.After(2 * s.launcher.limit) // a busy machine starts processes slowly, which is not measured
	for ended := s.ended; ; {
		if found := s.kind(kind); len(found) >= number {
			return found
		}
		select {
		case <-s.arrived:
		case <-ended:
			if ended = nil; kind == "rank" {
				s.fail("the launcher ended before %d ranks were there: %s", number, s.said())
			}
		case <-late:
			s.fail("%d of %d processes %q reported: %s", len(s.kind(kind)), number, kind, s.said())
		}
	}
}

func (s *scene) kind(kind string) []*member {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return m.kind != kind })
	slices.SortFunc(found, func(a, b *member) int { return a.rank - b.rank })
	return found
}

// order sends an order to a rank.
func (s *scene) order(m *member, format string, values ...any) {
	_, err := fmt.Fprintf(m.conn, format+"\n", values...)
	s.require(err == nil, "rank %d takes no orders: %v", m.rank, err)
}

// demand sends an order to a rank and waits until it is done.
func (s *scene) demand(m *member, order string) {
	s.order(m, "%s", order)
	_, err := m.words.ReadString('\n')
	s.require(err == nil, "rank %d is gone: %v: %s", m.rank, err, s.said())
}

// signal sends a signal to a process of the job.
func (s *scene) signal(pid int, number syscall.Signal) {
	s.require(pid > 1, "no process to send %v to", number)
	err := syscall.Kill(pid, number)
	s.require(err == nil, "send %v to %d: %v", number, pid, err)
}

// until polls for a condition in /proc or in the launcher's output.
func (s *scene) until(what string, holds func() bool) {
	for end := time.Now().Add(s.launcher.limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.fail("never seen: %s: %s", what, s.said())
		}
	}
}

// guard waits for the guard process of the launcher with a pid, other than those in before.
func (s *scene) guard(launcher int, before ...process) process {
	var found process
	s.until("a guard", func() bool {
		for _, p := range children(launcher) {
			if p.name == "job-guard" && !slices.ContainsFunc(before, func(b process) bool { return b.pid == p.pid }) {
				found = p
				return true
			}
		}
		return false
	})
	s.guards = append(s.guards, found)
	return found
}

// result waits for the launcher's end.
func (s *scene) result() outcome {
	select {
	case <-s.ended:
	case <-time.After(s.launcher.limit):
		s.fail("hangs: %s", s.said())
	}
	status, _ := s.command.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return outcome{s.text("stdout"), s.text("stderr"), code}
}

// text is the content of a file of the scene.
func (s *scene) text(name string) string {
	text, _ := os.ReadFile(s.path(name))
	if s.tty != nil {
		return s.tty.String()
	}
	return string(text)
}

// said is the end of the launcher's output so far, for messages.
func (s *scene) said() string {
	text := strings.TrimSpace(s.text("stderr"))
	if len(text) > 1500 {
		text = "…" + text[len(text)-1500:]
	}
	return fmt.Sprintf("stderr %q", text)
}

// gone polls /proc until no process of the job is left. It returns the processes that remain after the limit.
func (s *scene) gone() (left []process, took time.Duration) {
	began := time.Now()
	for {
		left = s.present()
		if took = time.Since(began); len(left)+len(s.groups()) == 0 || took > s.launcher.leaving {
			return left, took
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// groups lists the cgroups of the job that still exist.
func (s *scene) groups() (dirs []string) {
	for _, m := range append(s.kind("rank"), s.kind("child")...) {
		for _, dir := range m.group {
			if exists(dir) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// present lists the processes with the mark of the case, and other known processes.
func (s *scene) present() []process {
	found := marked(s.mark)
	others := slices.Clone(s.guards)
	for _, kind := range []string{"rank", "child"} {
		for _, m := range s.kind(kind) {
			others = append(others, m.self)
		}
	}
	for _, p := range others {
		if p.pid != 0 && p.lives() && !slices.ContainsFunc(found, func(f process) bool { return f.pid == p.pid }) {
			found = append(found, p)
		}
	}
	return found
}

// terminal is a pseudo-terminal whose master this process holds.
type terminal struct {
	master, slave *os.File
	mutex         sync.Mutex
	text          strings.Builder
}

func openTerminal() (*terminal, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/ptmx", err)
	}
	// Not blocking, so that closing it does not wait for drain.
	t := &terminal{master: os.NewFile(uintptr(master), "/dev/ptmx")}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		t.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.master.Close()
		return nil, err
	}
	go t.drain()
	return t, nil
}

// drain reads the terminal's output, so that no writer blocks.
func (t *terminal) drain() {
	buffer := make([]byte, 4096)
	for {
		n, err := t.master.Read(buffer)
		t.mutex.Lock()
		t.text.Write(buffer[:n])
		t.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *terminal) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.text.String()
}
