package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"gorun/launcher"
	"gorun/launcher/registry"
	"gorun/rendezvous/tcpstore"
)

// TestMain makes the test binary each of the programs that scripts run. It copies the binary under their names into
// a folder of PATH.
func TestMain(m *testing.M) {
	launcher.Main() // the guard of a killed gorun is this binary, too: it must not run the tests
	testscript.Main(m, map[string]func(){
		"gorun": main, "torchrun": main, "mpirun": main, "mpiexec": main, "prterun": main, "torch.distributed.launch": main,
		"rank": rank, "seek": seek, "python-of-scripts": printArguments,
	})
}

// TestScripts runs testdata/script/*.txtar: commands, the expected output and exit codes. See commands for the
// script commands, and rank for the program of ranks.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Cmds:  commands,
		Setup: surround,
	})
}

// surround sets the host's name, keeps records of jobs apart, and keeps programs with the race detector from sleeping
// a second before they exit.
func surround(e *testscript.Env) error {
	host, err := os.Hostname()
	e.Setenv("HOST", host)
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, ".state"))
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	return err
}

// commands are the scripts' commands besides testscript's own.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"exits": exits, "cmplines": cmplines, "cmplike": cmplike, "json": checkJSON, "jsonenv": jsonenv, "listen": listen,
	"freeport": freePort, "entry": entry, "listed": listed,
}

// want checks the arguments of a command.
func want(ts *testscript.TestScript, ok bool, usage string) {
	if !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) >= 2, "exits CODE PROGRAM [ARGS...]")
	wanted, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != wanted {
		ts.Fatalf("%q exited with %d, not %d", args[1:], code, wanted)
	}
}

func cmplines(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "cmplines FILE WANT")
	sorted := func(name string) string {
		lines := strings.SplitAfter(ts.ReadFile(name), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	sameText(ts, args, sorted(args[0]), sorted(args[1]))
}

func cmplike(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "cmplike FILE WANT")
	sameText(ts, args, likeness(ts.ReadFile(args[0])), likeness(os.Expand(ts.ReadFile(args[1]), ts.Getenv)))
}

func sameText(ts *testscript.TestScript, names []string, got, wanted string) {
	if got != wanted {
		ts.Fatalf("%s is not like %s:\n--- %s\n%s--- %s\n%s", names[0], names[1], names[0], got, names[1], wanted)
	}
}

// likeness is a text without parts that differ between runs or hosts. It replaces process ids, times, the number of
// inherited variables, and the width of columns with a long value.
func likeness(text string) string {
	for _, l := range likenesses {
		text = l.differs.ReplaceAllString(text, l.replacement)
	}
	return text
}

var likenesses = []struct {
	differs     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\bpid \d+`), "pid N"},
	{regexp.MustCompile(`(?m) after [0-9.]+m?s(\)| \(--timeout\)|)$`), " after T$1"},
	{regexp.MustCompile(`\d+ inherited variables?`), "N inherited variables"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 3 && !neg || len(args) == 2 && neg, "json FILE PATH VALUE, ! json FILE PATH")
	value, err := fromJSON(ts.ReadFile(args[0]), args[1])
	switch {
	case neg && err == nil:
		ts.Fatalf("%s: %s is %s, and should not be there", args[0], args[1], value)
	case !neg && err != nil:
		ts.Fatalf("%s: %v", args[0], err)
	case !neg && value != args[2]:
		ts.Fatalf("%s: %s is %q, not %q", args[0], args[1], value, args[2])
	}
}

func jsonenv(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 3, "jsonenv NAME FILE PATH")
	value, err := fromJSON(ts.ReadFile(args[1]), args[2])
	ts.Check(err)
	ts.Setenv(args[0], value)
}

// fromJSON is the value at a path: a string as it is, any other value as JSON. It validates gorun's documents.
func fromJSON(text, path string) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	if into(value, "schema") != nil {
		if err := checkDocument([]byte(text)); err != nil {
			return "", err
		}
	}
	for step := range strings.SplitSeq(path, "/") {
		if value = into(value, step); value == nil {
			return "", fmt.Errorf("%s: no %s", path, step)
		}
	}
	if s, ok := value.(string); ok {
		return s, nil
	}
	written, err := json.Marshal(value)
	return string(written), err
}

// into is one step of a path, or nil if the value does not exist.
func into(value any, step string) any {
	switch v := value.(type) {
	case map[string]any:
		return v[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(v) {
			return v[i]
		}
		key, text, _ := strings.Cut(step, "=")
		i := slices.IndexFunc(v, func(e any) bool { return into(e, key) == any(text) })
		if i >= 0 {
			return v[i]
		}
	}
	return nil
}

func listen(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 1, "listen NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

func freePort(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 1, "freeport NAME")
	r, err := tcpstore.Reserve("127.0.0.1", 0)
	ts.Check(err)
	ts.Defer(func() { _ = r.Close() })
	ts.Setenv(args[0], strconv.Itoa(int(r.Addr().Port())))
}

func listed(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && (len(args) == 1 || len(args) == 2), "listed N [BYTES]")
	least := int64(1)
	if len(args) == 2 {
		var err error
		least, err = strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
	}
	for {
		ts.Check(ts.Exec("gorun", "ps", "--json"))
		text := ts.ReadFile("stdout")
		var list jobList
		ts.Check(json.Unmarshal([]byte(text), &list))
		silent := slices.ContainsFunc(list.Jobs, func(j registry.Job) bool {
			return slices.ContainsFunc(j.Ranks, func(r registry.Rank) bool {
				return r.Last == "" || r.Output == nil || *r.Output < least
			})
		})
		if strconv.Itoa(len(list.Jobs)) == args[0] && !silent {
			ts.Check(os.WriteFile(ts.MkAbs("jobs.json"), []byte(text), 0o600))
			return
		}
	}
}

func entry(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 2, "entry NAME DIR")
	list, err := os.ReadDir(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(list) != 1 {
		ts.Fatalf("%s has %d entries: %v", args[1], len(list), list)
	}
	ts.Setenv(args[0], filepath.Join(ts.MkAbs(args[1]), list[0].Name()))
}

// rank is the program that scripts start as ranks. It performs its arguments in order; an argument after "N:"
// applies to rank N only:
//
//	out=TEXT err=TEXT   print a line to standard output, standard error
//	part=TEXT           the same to standard output, without an end of line
//	errpart=TEXT        to standard error
//	lines=N             print N lines to standard error
//	env=NAME            print NAME=value, or "NAME is not set"
//	record=TEXT         write PyTorch's error file in the folder that --log-dir prepares before the start
//	file=NAME           print the size of a file in bytes
//	dir, stdin          print the working directory; each line of standard input
//	exit=N signal=N     exit with a code, or by that signal to itself
//	timer=SCOPE,N,SIGNAL make PyTorch's file timer of that name expire N seconds ago
//	timers=TEXT         write a line to the pipe of file timers; @PID and @PPID are the rank's and the launcher's
//	get=WHAT            print the first and the last line of the health check's response to "WHAT HTTP/1.1"
//	tell=N              send that signal to the launcher, even from below sh
//	helped              from now on, SIGTERM has it print whether a helper still answers, and exit
//	deaf                ignore SIGTERM
//	child               start a child that SIGTERM has print "asked", and exit
//	wait, hang          wait for a signal; wait for ever
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
	"helped":  beHelped,
	"deaf":    func(string) { signal.Ignore(unix.SIGTERM) },
	"child":   startChild,
	"asked":   func(string) { onTerm(func() { fmt.Println("asked") }) },
	"timer":   setTimer,
	"timers":  writeTimers,
	"get":     askHTTP,
}

// tell sends a signal to the launcher, which handles signals once its first rank runs.
func tell(sig string) {
	launcher := os.Getppid()
	if parent := fmt.Sprint("/proc/", launcher); string(proc(parent, "comm")) == "sh\n" {
		launcher = number(statusLine(parent, "PPid"))
	}
	_ = unix.Kill(launcher, unix.Signal(number(sig)))
}

func onTerm(do func()) {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM)
	go func() {
		<-terms
		do()
		os.Exit(0)
	}()
}

func beHelped(string) {
	helper := exec.Command("cat")
	in, err := helper.StdinPipe()
	must(err)
	out, err := helper.StdoutPipe()
	must(err)
	must(helper.Start())
	onTerm(func() {
		_, _ = io.WriteString(in, "saved\n")
		answer, err := bufio.NewReader(out).ReadString('\n')
		fmt.Print(answer)
		must(err)
	})
}

func startChild(string) {
	child := exec.Command(os.Args[0], "asked", "out=ready", "hang")
	out, err := child.StdoutPipe()
	must(err)
	must(child.Start())
	lines := bufio.NewReader(out)
	_, err = lines.ReadString('\n')
	must(err)
	go func() { _, _ = io.Copy(os.Stdout, lines) }()
}

// setTimer sends the request of PyTorch's FileTimerClient.
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

func askHTTP(what string) {
	c, err := net.Dial("tcp", "localhost:"+cmp.Or(os.Getenv("METRICS_PORT"), os.Getenv("TORCHELASTIC_HEALTH_CHECK_PORT")))
	must(err)
	_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\n\r\n", what)
	must(err)
	answer, err := io.ReadAll(c)
	must(err)
	first, _, _ := strings.Cut(string(answer), "\r\n")
	lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
	fmt.Println(first, "|", lines[len(lines)-1])
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

// printArguments is a program that prints its arguments; scripts use it as their Python.
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

// seek searches the arguments and the environment of all processes for the secrets of a script: the token in the
// file token, and the job's key. It writes its first argument and the findings to the file found, and executes its
// other arguments. The file pids lists the processes that may have the token.
func seek() {
	dir := os.Getenv("SECRETS")
	who := os.Args[1]
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	must(err)
	pids, err := os.ReadFile(filepath.Join(dir, "pids"))
	must(err)
	needles := [][]byte{bytes.TrimSpace(token)}
	if file := os.Getenv("GORUN_JOB_KEY"); file != "" {
		key, err := os.ReadFile(file)
		must(err)
		needles = append(needles, key, []byte(hex.EncodeToString(key)), []byte(base64.StdEncoding.EncodeToString(key)),
			[]byte(base64.URLEncoding.EncodeToString(key)))
		who += " with a key"
	}
	lines := []string{who + "\n"}
	all, err := filepath.Glob("/proc/[0-9]*")
	must(err)
	for _, process := range all {
		command, environ := proc(process, "cmdline"), proc(process, "environ")
		parent := statusLine(process, "PPid")
		isGiven := func(pid string) bool { return slices.Contains(strings.Fields(string(pids)), pid) }
		// a vfork child shares its parent's memory until it executes its program
		if isGiven(filepath.Base(process)) || isGiven(parent) && bytes.Equal(command, proc("/proc/"+parent, "cmdline")) {
			environ = nil
		}
		for _, needle := range needles {
			if bytes.Contains(command, needle) || bytes.Contains(environ, needle) {
				lines = append(lines, fmt.Sprintf("LEAK to %s: %q\n", who, command))
			}
		}
	}
	found, err := os.OpenFile(filepath.Join(dir, "found"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(err)
	_, err = found.WriteString(strings.Join(lines, ""))
	must(err)
	if len(os.Args) > 2 {
		path, err := exec.LookPath(os.Args[2])
		must(err)
		must(syscall.Exec(path, os.Args[2:], os.Environ()))
	}
}

// proc reads a file of a process, which may have ended.
func proc(process, name string) []byte {
	text, _ := os.ReadFile(filepath.Join(process, name))
	return text
}

// statusLine is a line in the status file of a process.
func statusLine(process, key string) string {
	for line := range strings.Lines(string(proc(process, "status"))) {
		if value, found := strings.CutPrefix(line, key+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
