package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// rank is the program that scripts start as ranks. Its arguments are acts, done
// one after the other; one behind "N:" is left to rank N:
//
//	out=TEXT err=TEXT   print a line to standard output, standard error
//	part=TEXT           the same to standard output, without an end of line
//	errpart=TEXT        to standard error
//	lines=N             N lines to standard error
//	env=NAME            print NAME=value, or "NAME is not set"
//	record=TEXT         write PyTorch's error file, which --log-dir makes a place for before the start
//	file=NAME           print how many bytes a file has
//	dir, stdin          print the working directory; each line of standard input
//	exit=N signal=N     end, by an exit code or by that signal to itself
//	timer=SCOPE,N,SIGNAL have PyTorch's file timer of that name expire N seconds ago
//	timers=TEXT         write a line to the pipe of file timers; @PID and @PPID are the rank's and the launcher's
//	get=WHAT            print the first and the last line of what the health check answers to "WHAT HTTP/1.1"
//	tell=N              send that signal to the launcher
//	wait, hang          wait for a signal; for nothing
func rank() {
	for _, act := range os.Args[1:] {
		if who, mine, found := strings.Cut(act, ":"); found && isNumber(who) {
			if who != os.Getenv("RANK") {
				continue
			}
			act = mine
		}
		name, value, _ := strings.Cut(act, "=")
		perform, known := acts[name]
		if !known {
			fmt.Fprintf(os.Stderr, "rank: unknown act %q\n", act)
			os.Exit(99)
		}
		perform(value)
	}
}

var acts = map[string]func(value string){
	"out":     func(s string) { fmt.Println(s) },
	"err":     func(s string) { fmt.Fprintln(os.Stderr, s) },
	"part":    func(s string) { fmt.Print(s) },
	"errpart": func(s string) { fmt.Fprint(os.Stderr, s) },
	"lines":   printLines,
	"env":     printVariable,
	"dir":     func(string) { dir, _ := os.Getwd(); fmt.Println(dir) },
	"stdin":   printStdin,
	"record":  func(s string) { _ = os.WriteFile(os.Getenv("TORCHELASTIC_ERROR_FILE"), []byte(s), 0o600) },
	"file":    printSize,
	"exit":    func(s string) { os.Exit(number(s)) },
	"signal":  func(s string) { _ = unix.Kill(os.Getpid(), unix.Signal(number(s))); _ = unix.Pause() },
	"wait":    func(string) { _ = unix.Pause() },
	"hang":    func(string) { time.Sleep(time.Hour) },
	"tell":    tell,
	"timer":   setTimer,
	"timers":  writeTimers,
	"get":     askHealth,
}

// tell sends a signal to the launcher, which hears it from its first rank's start on.
func tell(signal string) { _ = unix.Kill(os.Getppid(), unix.Signal(number(signal))) }

// setTimer asks as PyTorch's FileTimerClient does.
func setTimer(timer string) {
	part := strings.Split(timer, ",")
	at := float64(time.Now().UnixMilli())/1000 - float64(number(part[1]))
	writeTimers(fmt.Sprintf(`{"version": 1, "pid": @PID, "scope_id": %q, "expiration_time": %f, "signal": %s}`, part[0],
		at, part[2]))
}

func writeTimers(text string) {
	text = strings.NewReplacer("@PID", strconv.Itoa(os.Getpid()), "@PPID", strconv.Itoa(os.Getppid()), `\n`,
		"\n").Replace(text)
	pipe, err := os.OpenFile(os.Getenv("TORCHELASTIC_TIMER_FILE"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	must(err)
	_, err = pipe.WriteString(text + "\n")
	must(err)
	must(pipe.Close())
}

func askHealth(what string) {
	c, err := net.Dial("tcp", "localhost:"+os.Getenv("TORCHELASTIC_HEALTH_CHECK_PORT"))
	must(err)
	_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\n\r\n", what)
	must(err)
	answer, err := io.ReadAll(c)
	must(err)
	lines := strings.Split(strings.TrimSpace(string(answer)), "\r\n")
	fmt.Println(lines[0], "|", strings.TrimSpace(lines[len(lines)-1]))
}

func printLines(count string) {
	for i := range number(count) {
		fmt.Fprintf(os.Stderr, "line %d\n", i+1)
	}
}

func printVariable(name string) {
	if value, set := os.LookupEnv(name); set {
		fmt.Printf("%s=%s\n", name, value)
	} else {
		fmt.Println(name + " is not set")
	}
}

func printSize(name string) {
	if info, err := os.Stat(name); err == nil {
		fmt.Printf("%s: %d bytes\n", name, info.Size())
	}
}

func printStdin(string) {
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		fmt.Printf("rank %s read %s\n", os.Getenv("RANK"), s.Text())
	}
}

// printArguments is a program that says how it was called: scripts have it as
// their Python.
func printArguments() {
	fmt.Println(slices.Concat([]string{"python"}, os.Args[1:]))
}

func isNumber(s string) bool { _, err := strconv.Atoi(s); return err == nil }

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		os.Exit(99)
	}
	return n
}
