package process_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/launcher/internal/process"
)

// Ranks are this test binary, run as "BINARY rank-role ROLE ARG…". So are launchers that have to be started in a
// special way.
const roleArg = "rank-role"

const self = "/proc/self/exe"

func init() {
	if len(os.Args) < 3 || os.Args[1] != roleArg {
		return
	}
	roles := map[string]func(args []string){
		"exit": exitRole, "kill": killRole, "raw": rawRole, "write": writeRole, "words": wordsRole,
		"wait": waitRole, "leave": leaveRole, "cat": catRole, "deaf": deafRole, "tty": ttyRole,
		"gate": gateRole, "launch": launchRole, "limited": limitedRole, "hushed": hushedRole, "many": manyRole,
		"crowded": crowdedRole, "swap": swapRole, "talk": talkRole, "shell": shellRole,
		"poll": pollRole,
	}
	roles[os.Args[2]](os.Args[3:])
	os.Exit(0)
}

// role returns the argv of a rank.
func role(name string, args ...string) []string {
	return append([]string{"rank", roleArg, name}, args...)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func exitRole(args []string) { os.Exit(number(args[0])) }

func killRole(args []string) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	sig := syscall.Signal(number(args[0]))
	signal.Reset(sig)
	_ = syscall.Kill(os.Getpid(), sig)
	select {}
}

// rawRole prints its argv and environment as the kernel stores them.
func rawRole([]string) {
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d\n%s", len(text), text)
	}
}

// writeRole writes numbered lines alternately to descriptors 1 and 2, one write each, with sizes up to the given one.
func writeRole(args []string) {
	count, size := number(args[0]), number(args[1])
	for i := range count {
		n := 1 + (i*7919)%size
		line := append(bytes.Repeat([]byte{'a' + byte(i%26)}, n), "\n"...)
		_, _ = os.Stdout.Write(line)
		_, _ = os.Stderr.Write([]byte(strconv.Itoa(i) + "\n"))
	}
}

// wordsRole kills itself with SIGKILL right after its last output.
func wordsRole(args []string) {
	_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), number(args[0])))
	_, _ = os.Stdout.WriteString("last words")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// waitRole prints its pid and waits for a signal to end it.
func waitRole([]string) {
	fmt.Println(os.Getpid())
	for {
		_, _ = unix.Poll(nil, -1)
	}
}

// leaveRole leaves a child that prints its pid and keeps stdout open. With an argument, it stays as well.
func leaveRole(args []string) {
	child := exec.Command(self)
	child.Args = role("wait")
	child.Stdout = os.Stdout
	if err := child.Start(); err != nil {
		panic(err)
	}
	for len(args) > 0 {
		_, _ = unix.Poll(nil, -1)
	}
}

// pollRole copies its stdin to stdout, in its main thread, which runs init. It waits in poll(2) or ppoll(2), for that
// number of milliseconds at most.
func pollRole(args []string) {
	limit, buffer := number(args[1]), make([]byte, 64)
	for {
		in := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
		var ready int
		if args[0] == "poll" {
			ready, _ = unix.Poll(in, limit)
		} else {
			t := unix.NsecToTimespec(int64(limit) * 1e6)
			ready, _ = unix.Ppoll(in, &t, nil)
		}
		if ready > 0 {
			if n, _ := unix.Read(0, buffer); n > 0 {
				_, _ = unix.Write(1, buffer[:n])
			}
		}
	}
}

// catRole prints the length and hash of its stdin.
func catRole([]string) {
	h := sha256.New()
	n, err := io.Copy(h, os.Stdin)
	fmt.Printf("%d %x %v\n", n, h.Sum(nil)[:8], err)
}

// deafRole closes its stdin, prints a line and then waits forever.
func deafRole([]string) {
	_ = os.Stdin.Close()
	fmt.Println("closed")
	waitRole(nil)
}

// gateRole writes a little to its pipe, prints a line on stderr and continues to write.
func gateRole(args []string) {
	_, _ = os.Stdout.Write(make([]byte, 1000))
	_, _ = os.Stderr.WriteString("begun\n")
	_, _ = os.Stdout.Write(make([]byte, number(args[0])))
}

// ttyRole prints the properties of its terminal, its next size, and then its input.
func ttyRole([]string) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	fmt.Println("terminals:", term.IsTerminal(0), term.IsTerminal(1), term.IsTerminal(2))
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	fmt.Println("own:", err)
	cols, rows, _ := term.GetSize(int(tty.Fd()))
	fmt.Println("size:", rows, cols)
	<-resized
	cols, rows, _ = term.GetSize(0)
	fmt.Println("resized:", rows, cols)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		fmt.Fprintf(os.Stderr, "read: %q %v\n", line, err)
		if err != nil {
			return
		}
	}
}

// launchRole is a launcher that starts the program in its arguments as one rank, which shares its stdout.
func launchRole(args []string) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	if err := process.SealInherited(); err != nil {
		panic(err)
	}
	launch(process.Rank{Stdout: descriptor(1)}, process.Common{Path: args[0], Argv: args})
}

// limitedRole sets the limit of open files and becomes a launcher, which therefore has it from the start. Setrlimit
// makes package syscall leave the limit alone.
func limitedRole(args []string) {
	limit := syscall.Rlimit{Cur: uint64(number(args[0])), Max: uint64(number(args[1]))}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	panic(syscall.Exec(self, args[2:], os.Environ()))
}

// hushedRole becomes a launcher with SIGUSR1 blocked and SIGHUP ignored.
func hushedRole(args []string) {
	runtime.LockOSThread()
	mask := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGUSR1 - 1)}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &mask, nil); err != nil {
		panic(err)
	}
	signal.Ignore(syscall.SIGHUP)
	panic(syscall.Exec(self, args, os.Environ()))
}

// manyRole is a launcher that starts the given number of waiting ranks and prints the result.
func manyRole(args []string) {
	n := number(args[0])
	fmt.Println("check:", process.CheckLimits(n, 0, process.DescriptorsPerRank(false)))
	ranks := make([]process.Rank, n)
	for i := range ranks {
		ranks[i] = piped(i)
	}
	g := process.NewGroup(newRecorder())
	fmt.Println("start:", g.Start(process.Common{Path: "/bin/sleep", Argv: []string{"sleep", "600"}}, ranks))
	fmt.Println("close:", g.Close())
}

// crowdedRole is a launcher with a limit of processes. It stays below the limit, because the runtime would not
// survive it.
func crowdedRole(args []string) {
	limit := unix.Rlimit{Cur: uint64(number(args[0])), Max: uint64(number(args[0]))}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		panic(err)
	}
	fmt.Println("few:", process.CheckLimits(2, 0, process.DescriptorsPerRank(false)))
	fmt.Println("many:", process.CheckLimits(64, 0, process.DescriptorsPerRank(false)))
	fmt.Println("fork:", process.LimitFor(syscall.EAGAIN, 64, process.DescriptorsPerRank(false)))
}

// swapRole gives its own stdout to its rank as stderr, and its stderr as stdout.
func swapRole([]string) {
	launch(process.Rank{Stdout: descriptor(2), Stderr: descriptor(1)},
		process.Common{Path: self, Argv: role("write", "1", "1")})
}

func launch(r process.Rank, c process.Common) {
	rec := newRecorder()
	g := process.NewGroup(rec)
	if err := g.Start(c, []process.Rank{r}); err != nil {
		panic(err)
	}
	rec.await(r)
	if err := g.Close(); err != nil {
		panic(err)
	}
}
