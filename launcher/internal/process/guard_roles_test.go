package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The processes of these tests are the test binary, run as "BINARY test-role ROLE TOKEN ARG…". The role is in argv
// and not in a variable, because some run without an environment. The token is unique to a test, and all forked
// processes inherit it. So the tests can find the remaining processes without the code that they test.
const (
	roleArg   = "test-role"
	roleIndex = 2
	tokenArg  = 3
	firstArg  = 4
)

// lifeline is descriptor 3 of all roles, the write end of a pipe without any data. The tests hold the read end:
// end-of-file means that all roles have ended, even short-lived ones that /proc never shows. When a test ends for any
// reason, its roles see an error and end as well.
var lifeline *os.File

const lifelineFD = 3

// gone is the time that a busy machine may need for cleanup, far more than gorun promises.
const gone = time.Minute

func init() {
	if EnterGuard() {
		os.Exit(0)
	}
	if len(os.Args) <= tokenArg || os.Args[1] != roleArg {
		return
	}
	lifeline = os.NewFile(lifelineFD, "lifeline")
	roles := map[string]func(token string, args []string){
		"sleeper":  func(string, []string) { sleepForEver() },
		"launcher": launcherRole, "rank": rankRole, "between": betweenRole,
		"stopped": stoppedRole, "closed": closedRole, "headless": headlessRole,
		"bunny": bunnyRole, "respawn": respawnRole, "finder": finderRole, "adopter": adopterRole,
		"refused": refusedRole,
	}
	roles[os.Args[roleIndex]](os.Args[tokenArg], os.Args[firstArg:])
	os.Exit(0)
}

func sleepForEver() {
	for !untended(-1) {
	}
}

// untended reports whether the test has ended. It waits for that if timeout is -1.
func untended(timeout int) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: lifelineFD}}, timeout)
	return n > 0
}

// command prepares a role in the same session with the same environment.
func command(role, token string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"test", roleArg, role, token}, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	cmd.ExtraFiles = []*os.File{lifeline}
	return cmd
}

func inSession(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr.Setsid = true
	return cmd
}

func mustStart(cmd *exec.Cmd) *exec.Cmd {
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// launcherRole starts a guard and a rank for each shape, prints a line, and waits to be killed. "replace" first kills
// its guard and starts another. "prepare" replaces the guard by one that already runs as the program. With "linked",
// standard input is the link.
func launcherRole(token string, args []string) {
	id, dir, shapes := args[0], args[1], args[2:]
	private, err := Identify(dir)
	if err != nil {
		panic(err)
	}
	cfg := GuardConfig{ID: id}
	if slices.Contains(shapes, "linked") {
		cfg.Link = os.Stdin
	}
	guard := new(Guard)
	guard.AddOwned(private)
	if err := guard.Start(cfg); err != nil {
		panic(err)
	}
	marker := Marker(os.Getenv(MarkerVar)).With(id)
	for _, shape := range shapes {
		if shape == "replace" || shape == "prepare" || shape == "linked" {
			continue
		}
		rank := inSession(command("rank", token, shape))
		rank.Env = append(os.Environ(), MarkerVar+"="+string(marker))
		guard.AddRank(mustStart(rank).Process.Pid)
	}
	if slices.Contains(shapes, "replace") {
		replaceGuard(guard)
	}
	if slices.Contains(shapes, "prepare") {
		if err := guard.Prepare(); err != nil {
			panic(err)
		}
	}
	fmt.Println(guard.PID())
	sleepForEver()
}

func replaceGuard(guard *Guard) {
	died := guard.Died()
	if err := unix.Kill(guard.PID(), unix.SIGKILL); err != nil {
		panic(err)
	}
	<-died
	if err := guard.Replace(); err != nil {
		panic(err)
	}
}

// rankRole has a child of the given shape. Like all roles it runs on the main thread, because ptrace is per thread.
func rankRole(token string, args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	child := command("sleeper", token)
	switch shape := args[0]; shape {
	case "plain", "traced":
	case "setsid":
		inSession(child)
	case "unmarked":
		child.Env = []string{}
	case "daemon":
		child = inSession(command("between", token))
	default:
		child = inSession(command(shape, token))
	}
	mustStart(child)
	switch args[0] {
	case "traced":
		_ = unix.PtraceAttach(child.Process.Pid)
	case "daemon":
		_ = child.Wait()
	}
	sleepForEver()
}

// betweenRole is the middle process of a double fork.
func betweenRole(token string, _ []string) { mustStart(command("sleeper", token)) }

func stoppedRole(string, []string) {
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	sleepForEver()
}

// closedRole also closes its lifeline, so it ends by a timeout.
func closedRole(string, []string) {
	_ = unix.CloseRange(0, ^uint(0)>>33, 0)
	_, _ = unix.Poll(nil, 2*int(gone/time.Millisecond))
}

// headlessRole ends its main thread, on which init functions run. Other threads live on.
func headlessRole(string, []string) {
	asleep := make(chan bool)
	go func() {
		close(asleep)
		sleepForEver()
	}()
	<-asleep
	syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// bunnyRole forks and exits, and so does each child. There are at most 50 forks per second, because the machine's init
// must reap the processes.
//
//go:norace
//go:nosplit
func bunnyRole(string, []string) {
	tended := unix.PollFd{Fd: lifelineFD}
	pause := unix.Timespec{Nsec: 20e6}
	for tended.Revents == 0 {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if pid != 0 && errno == 0 {
			break
		}
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&tended)), 1, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
}

// respawnRole starts a new child whenever one dies.
func respawnRole(token string, _ []string) {
	for !untended(0) {
		_ = mustStart(inSession(command("sleeper", token))).Wait()
	}
}

// finderRole ends the members of a session and prints their number.
func finderRole(_ string, args []string) {
	sid, _ := strconv.Atoi(args[0])
	target := Target{Sessions: []Session{{SID: sid}}, Since: 1}
	if len(args) > 1 {
		target.ID = args[1]
	}
	found, err := target.Find()
	target.KillAll(gone)
	fmt.Println(len(found), err)
}

// holders returns the living processes of a test, found only by their command lines.
func holders(t *testing.T, token string) (pids []int) {
	t.Helper()
	for _, pid := range allPids(t) {
		line, err := os.ReadFile(procFile(pid, "cmdline"))
		if err == nil && bytes.Contains(line, []byte(token)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func allPids(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// scene holds the processes of a test.
type scene struct {
	*testing.T
	token string
	tend  *os.File // the test's end of the lifeline
}

// newScene ends all processes that remain after the test.
func newScene(t *testing.T) scene {
	ignored := goleak.IgnoreCurrent()
	tend, theirs, err := os.Pipe()
	require.NoError(t, err)
	lifeline = theirs
	s := scene{t, newID(t), tend}
	t.Cleanup(func() {
		_, _ = tend.Close(), theirs.Close()
		for _, pid := range holders(t, s.token) { // stopped processes ignore the lifeline
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		goleak.VerifyNone(t, ignored)
	})
	return s
}

// start runs a role in its own session until the test ends.
func (s scene) start(marker Marker, role string, args ...string) *exec.Cmd {
	s.Helper()
	return s.run(marker, inSession(command(role, s.token, args...)))
}

func (s scene) run(marker Marker, cmd *exec.Cmd) *exec.Cmd {
	s.Helper()
	cmd.Stderr = os.Stderr
	if cmd.Env == nil {
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, MarkerVar+"=")
		}), MarkerVar+"="+string(marker))
	}
	require.NoError(s, cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// launch runs a launcher and returns once it and its guard are running.
func (s scene) launch(marker Marker, id, dir string, shapes ...string) (launcher *exec.Cmd, guard int) {
	s.Helper()
	return s.launchLinked(nil, marker, id, dir, shapes...)
}

// launchLinked is launch with standard input.
func (s scene) launchLinked(in *os.File, marker Marker, id, dir string, shapes ...string) (launcher *exec.Cmd,
	guard int,
) {
	s.Helper()
	cmd := inSession(command("launcher", s.token, append([]string{id, dir}, shapes...)...))
	if in != nil {
		cmd.Stdin = in
	}
	out, err := cmd.StdoutPipe()
	require.NoError(s, err)
	s.run(marker, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(s, err)
	guard, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(s, err)
	return cmd, guard
}

// eventually polls for a condition on other processes, which send no notification.
func (s scene) eventually(condition func() bool, what string) {
	s.Helper()
	assert.Eventually(s, condition, gone, 2*time.Millisecond, what)
	s.failed()
}

// failed ends a failed test, and shows the processes that are there.
func (s scene) failed() {
	s.Helper()
	if s.Failed() {
		for _, pid := range holders(s.T, s.token) {
			p, _ := Describe(pid)
			s.Logf("there is %v", p)
		}
		s.FailNow()
	}
}

func (s scene) eventuallyCount(n int) {
	s.Helper()
	s.eventually(func() bool { return len(holders(s.T, s.token)) == n }, fmt.Sprintf("%d processes", n))
}

// eventuallyRaging waits for process storms to start. Bunnies live too briefly to be counted. The first one of each
// storm remains as a zombie, because its rank never waits for it.
func (s scene) eventuallyRaging(lasting, bunnies int) {
	s.Helper()
	s.eventually(func() bool {
		parents, zombies := holders(s.T, s.token), 0
		for _, pid := range allPids(s.T) {
			if p, err := Describe(pid); err == nil && p.dead() && slices.Contains(parents, p.PPID) {
				zombies++
			}
		}
		return len(parents) >= lasting && zombies >= bunnies
	}, "storm")
}

// eventuallyGone waits until all of the test's processes and the given pids have ended. Nothing can be started
// afterwards.
func (s scene) eventuallyGone(pids ...int) {
	s.Helper()
	require.NoError(s, lifeline.Close())
	require.NoError(s, s.tend.SetReadDeadline(time.Now().Add(gone)))
	_, err := s.tend.Read(make([]byte, 1))
	assert.ErrorIs(s, err, io.EOF, "some process still holds the lifeline")
	s.failed()
	s.eventuallyCount(0)
	for _, pid := range pids {
		s.eventually(func() bool { return !alive(pid) }, fmt.Sprintf("pid %d gone", pid))
	}
}

func alive(pid int) bool {
	p, err := Describe(pid)
	return err == nil && !p.dead()
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := NewJobID()
	require.NoError(t, err)
	return id
}
