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

// The processes of these tests are the test binary again, with an argv of
// "BINARY test-role ROLE TOKEN ARG…": by argv and not by a variable, as some of
// them run without an environment. The token is unique to a test and inherited
// by whatever is forked, so that the tests can tell what is left without the code
// that they test.
const (
	roleArg   = "test-role"
	roleIndex = 2
	tokenArg  = 3
	firstArg  = 4
)

// lifeline is descriptor 3 of all roles, the write end of a pipe that is never written to. The tests hold the read
// end: end-of-file means that all roles have ended, even those too fast to be seen in /proc. A role whose test has
// ended, for any reason, sees an error and ends as well.
var lifeline *os.File

const lifelineFD = 3

// gone is how long a busy machine has to clean up, far more than is promised.
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
	}
	roles[os.Args[roleIndex]](os.Args[tokenArg], os.Args[firstArg:])
	os.Exit(0)
}

func sleepForEver() {
	for !untended(-1) {
	}
}

// untended reports whether the test is gone, waiting for it if timeout is -1.
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

// launcherRole starts a guard and a rank per shape, says so on its stdout, and
// waits to be killed. "replace" first kills its guard and starts another,
// "prepare" has one take over that is the program already. With "linked" standard input is the
// link.
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

// rankRole has a child of the given shape. It runs on the main thread, as all
// roles do, to which ptrace is tied.
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

// betweenRole is the one in the middle of a double fork.
func betweenRole(token string, _ []string) { mustStart(command("sleeper", token)) }

func stoppedRole(string, []string) {
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	sleepForEver()
}

// closedRole has no lifeline either, so it does not stay for ever.
func closedRole(string, []string) {
	_ = unix.CloseRange(0, ^uint(0)>>33, 0)
	_, _ = unix.Poll(nil, 2*int(gone/time.Millisecond))
}

// headlessRole ends its main thread, which init functions run on; others live.
func headlessRole(string, []string) {
	asleep := make(chan bool)
	go func() {
		close(asleep)
		sleepForEver()
	}()
	<-asleep
	syscall.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// bunnyRole forks, and ends when it has, again and again: fifty times a
// second, so that the machine's init keeps up with reaping.
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

// respawnRole starts a new child for each that dies.
func respawnRole(token string, _ []string) {
	for !untended(0) {
		_ = mustStart(inSession(command("sleeper", token))).Wait()
	}
}

// finderRole ends what belongs to a session and prints how many it found.
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

// holders are the living processes of a test, by their command line alone.
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

// scene is what a test has on stage.
type scene struct {
	*testing.T
	token string
	tend  *os.File // our end of the lifeline
}

// newScene ends in the end whatever the test left.
func newScene(t *testing.T) scene {
	ignored := goleak.IgnoreCurrent()
	tend, theirs, err := os.Pipe()
	require.NoError(t, err)
	lifeline = theirs
	s := scene{t, newID(t), tend}
	t.Cleanup(func() {
		_, _ = tend.Close(), theirs.Close()
		for _, pid := range holders(t, s.token) { // those that are stopped
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		goleak.VerifyNone(t, ignored)
	})
	return s
}

// start runs a role in a session of its own until the test ends.
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

// launch runs a launcher and returns when it and its guard are there.
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

// eventually waits for a condition on other processes, of which nobody notifies.
func (s scene) eventually(condition func() bool, what string) {
	s.Helper()
	assert.Eventually(s, condition, gone, 2*time.Millisecond, what)
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

// eventuallyRaging waits for storms. Bunnies live too short to be counted, but
// the first one of each stays behind as a zombie, as its rank never waits for it.
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

// eventuallyGone waits until none of the test's processes nor pid is left.
// Nothing can be started afterwards.
func (s scene) eventuallyGone(pids ...int) {
	s.Helper()
	require.NoError(s, lifeline.Close())
	require.NoError(s, s.tend.SetReadDeadline(time.Now().Add(gone)))
	_, err := s.tend.Read(make([]byte, 1))
	require.ErrorIs(s, err, io.EOF, "some process still holds the lifeline")
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
