package faults

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ranks are this test binary too, as "BINARY faults-role ROLE ARG…".
const roleArg = "faults-role"

// Variables that a case sets for its ranks.
const (
	// markVariable marks every process of a case. Its value is random.
	markVariable = "FAULTS_CASE"
	// sceneVariable is the directory with the case's socket and lifeline.
	sceneVariable = "FAULTS_SCENE"
)

// Limits on orphans, in case both the launcher and the test fail to end them.
const (
	// lifetime ends every waiting process.
	lifetime = 3 * time.Minute
	// chainLength is how often a fork chain forks in total; its last process only waits.
	chainLength = 1000
	// chainPause is the minimum lifetime of each process of a chain.
	chainPause = 20 * time.Millisecond
	// lifelineEvery is the interval at which a waiting process checks that the test still runs.
	lifelineEvery = 200 * time.Millisecond
)

// play runs a role and returns the exit status.
func play(role string, args []string) int {
	roles := map[string]func(args []string) int{
		"rank": rankRole, "child": childRole, "daemon": daemonRole, "chain": chainRole, "quit": quitRole,
		"print": printRole, "pieces": piecesRole, "sum": sumRole, "chatter": chatterRole, "half": halfRole,
		"compile": compileRole, "bomb": bombRole,
		"allocate": func(args []string) int { obey("allocate " + args[0]); return 0 },
	}
	if roles[role] == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		return 99
	}
	return roles[role](args)
}

// rankNumber is the rank from the variables of any launcher.
func rankNumber() int {
	for _, name := range []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
	}
	return 0
}

// alive reports whether the test still holds the other end of the lifeline.
func alive() bool {
	fd, err := unix.Open(filepath.Join(os.Getenv(sceneVariable), "lifeline"),
		unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// linger waits for a kill, until the test ends or lifetime passes.
func linger() int {
	for end := time.Now().Add(lifetime); time.Now().Before(end) && alive(); {
		time.Sleep(lifelineEvery) // the limit of a leak, not a synchronisation
	}
	return 70
}

// hello reports to the test as a kind of process and returns the connection that carries orders.
func hello(kind string) (net.Conn, error) {
	conn, err := net.Dial("unix", filepath.Join(os.Getenv(sceneVariable), "s"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "%s %d\n", kind, rankNumber())
	return conn, err
}

// rankRole installs a manner, starts a shape of process tree, and then follows the orders of the test.
func rankRole(args []string) int {
	behave(args[0])
	if err := grow(args[1], args[0]); err != nil {
		fmt.Fprintf(os.Stderr, "rank %d: start %s: %v\n", rankNumber(), args[1], err)
		return 98
	}
	conn, err := hello("rank")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		return 98
	}
	orders := bufio.NewScanner(conn)
	for orders.Scan() {
		obey(orders.Text())
		_, _ = conn.Write([]byte("done\n"))
	}
	return 70 // the test has ended
}

// behave installs a manner: default, ignore, tell (also ignore, but print the signal), handle (exit 0), follow
// (exit 9).
func behave(manner string) {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}
	codes := map[string]int{"handle": 0, "follow": 9}
	switch manner {
	case "ignore":
		signal.Ignore(ends...)
	case "tell":
		came := make(chan os.Signal, 8)
		signal.Notify(came, append(ends, syscall.SIGUSR1)...)
		go func() {
			for s := range came {
				fmt.Printf("rank %d got %s\n", rankNumber(), unix.SignalName(s.(syscall.Signal)))
			}
		}()
	case "handle", "follow":
		came := make(chan os.Signal, 1)
		signal.Notify(came, ends...)
		go func() {
			<-came
			os.Exit(codes[manner])
		}()
	}
}

// grow starts the other processes of a shape and waits for their start. Each says hello itself and has the same
// manner.
func grow(shape, manner string) error {
	switch shape {
	case "none":
		return nil
	case "child", "holder":
		return start(same("child", manner), nil)
	case "setsid":
		return start(same("child", manner), &syscall.SysProcAttr{Setsid: true})
	case "daemon":
		return same("daemon", manner).Run()
	case "bare":
		command := same("daemon", manner, "bare", os.Getenv(sceneVariable), strconv.Itoa(rankNumber()))
		command.Env = []string{}
		return command.Run()
	case "closed":
		command := exec.Command("/bin/sh",
			append([]string{"-c", `exec "$@" <&- >&- 2>&-`, "sh"}, same("child", manner).Args...)...)
		return start(command, nil)
	case "stopped", "traced":
		return start(same("child", manner, shape), nil)
	case "chain":
		return start(same("chain", strconv.Itoa(chainLength)), nil)
	}
	return fmt.Errorf("no shape %q", shape)
}

// same is a command of this binary in a role, with the same standard streams.
func same(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	command := exec.Command(path, append([]string{roleArg}, args...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command
}

func start(command *exec.Cmd, attributes *syscall.SysProcAttr) error {
	command.SysProcAttr = attributes
	return command.Start()
}

// childRole says hello and waits, with a manner. Depending on its arguments it stops, or its parent traces it. A
// bare child gets from its arguments what other processes get from their environment.
func childRole(args []string) int {
	behave(args[0])
	if len(args) == 4 {
		_, _ = os.Setenv(sceneVariable, args[2]), os.Setenv("RANK", args[3])
		args = args[:1]
	}
	if _, err := hello("child"); err != nil {
		return 98
	}
	if len(args) < 2 {
		return linger()
	}
	runtime.LockOSThread()
	if args[1] == "traced" {
		_, _, _ = unix.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
	}
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGSTOP)
	return linger()
}

// daemonRole is the process in the middle of a double fork.
func daemonRole(args []string) int {
	if _, err := unix.Setsid(); err != nil {
		return 98
	}
	if err := same(append([]string{"child"}, args...)...).Start(); err != nil {
		return 98
	}
	return 0
}

// chainRole lives briefly and starts a successor, until the chain ends. The first process says hello.
func chainRole(args []string) int {
	left, err := strconv.Atoi(args[0])
	if err != nil {
		return 98
	}
	if left == chainLength {
		if _, err := hello("child"); err != nil {
			return 98
		}
	}
	time.Sleep(chainPause) // limits the rate of the chain, not a synchronisation
	if left <= 0 {
		return linger()
	}
	if !alive() || same("chain", strconv.Itoa(left-1)).Start() != nil {
		return 70
	}
	return 0
}

// compileRole replaces the go command: it makes a file in the same place, starts a compiler and never finishes.
func compileRole([]string) int {
	dir := os.Getenv("GOTMPDIR")
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "go-build"), nil, 0o600); err != nil {
		return 98
	}
	if err := start(same("child", "ignore"), nil); err != nil {
		return 98
	}
	return linger()
}

// obey follows one order.
func obey(order string) {
	verb, argument, _ := strings.Cut(order, " ")
	number, _ := strconv.Atoi(argument)
	switch verb {
	case "say":
		for line := range number {
			fmt.Printf("rank %d says line %d\n", rankNumber(), line)
		}
	case "hush":
		_, _, _ = os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close()
	case "allocate":
		allocate(number)
	case "threads":
		occupy(number)
	case "fork":
		forkAll()
	case "bomb":
		_ = start(same("bomb"), &syscall.SysProcAttr{Setsid: true}) // it says hello
	case "child":
		_ = same("allocate", argument).Run() // the test checks how it ends
	case "exit":
		os.Exit(number)
	case "panic":
		panic("ordered to")
	case "signal":
		die(syscall.Signal(number))
	}
}

// allocate allocates and touches memory of a size in MiB.
func allocate(size int) {
	fmt.Printf("rank %d allocates %d MiB\n", rankNumber(), size)
	for range size {
		memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
	}
}

// die ends this process with a signal, without Go's signal handling.
func die(s syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	var unhandled [8]uint64 // a struct sigaction with SIG_DFL
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&unhandled)), 0, 8, 0, 0)
	_ = syscall.Kill(os.Getpid(), s)
	select {}
}

// quitRole exits with the code of its argument. With two arguments rank 0 exits with the first, all others with the
// second.
func quitRole(args []string) int {
	code, _ := strconv.Atoi(args[min(rankNumber(), len(args)-1)])
	return code
}

func printRole([]string) int {
	if _, err := fmt.Printf("rank %d here\n", rankNumber()); err != nil {
		return 97
	}
	return 0
}

// line is the complete line number n of a rank, with its newline, size bytes long.
func line(rank, n, size int) string {
	head := fmt.Sprintf("<%d:%d:", rank, n)
	return head + strings.Repeat(string(rune('a'+rank)), size-len(head)-2) + ">\n"
}

// piecesRole writes lines of a size in pieces: LINES SIZE PIECE.
func piecesRole(args []string) int {
	lines, _ := strconv.Atoi(args[0])
	size, _ := strconv.Atoi(args[1])
	piece, _ := strconv.Atoi(args[2])
	for n := range lines {
		for text := line(rankNumber(), n, size); text != ""; {
			part := text[:min(piece, len(text))]
			if _, err := os.Stdout.WriteString(part); err != nil {
				return 97
			}
			text = text[len(part):]
		}
	}
	return 0
}

// halfRole prints half a line and kills itself; the other ranks wait.
func halfRole([]string) int {
	if rankNumber() != 1 {
		return linger()
	}
	fmt.Print("a whole line\nhalf a li")
	die(syscall.SIGKILL)
	return 0
}

// sumRole prints the length and the hash of its standard input.
func sumRole([]string) int {
	h := sha256.New()
	n, err := io.Copy(h, os.Stdin)
	fmt.Printf("rank %d read %d bytes %x %v\n", rankNumber(), n, h.Sum(nil)[:8], err)
	return 0
}

// chatterRole prints until its reader closes the stream, or the test ends.
func chatterRole([]string) int {
	for n := 0; n%1000 != 999 || alive(); n++ {
		if _, err := fmt.Printf("line %d\n", n); err != nil {
			return 0
		}
	}
	return 70
}
