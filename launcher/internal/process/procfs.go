package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"gorun/env"
)

// Ticks is a time since boot in the unit of /proc: 1/100 s, including suspended time. A pid and a start time identify a
// process uniquely.
type Ticks uint64

const nanosecondsPerTick = 1e9 / 100 // USER_HZ is 100 on amd64 and arm64

// Duration returns the time as a duration.
func (t Ticks) Duration() time.Duration { return time.Duration(t) * nanosecondsPerTick }

// Now returns the start time that a process started now would have.
func Now() Ticks {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0 // since Linux 2.6.39 it cannot fail
	}
	return Ticks(t.Nano() / nanosecondsPerTick)
}

// Proc is the contents of /proc/PID/stat.
type Proc struct {
	PID, PPID, PGID, SID int
	// Name is the kernel's name of the program, at most 15 bytes, with unprintable characters replaced by '?'.
	Name string
	// State is R, S, D (uninterruptible), T (stopped), t (traced), Z (zombie), …
	State byte
	// Threads counts the existing threads, including an exited main thread.
	Threads int
	Start   Ticks
	// CPU is the CPU time of all threads, ChildCPU that of reaped children.
	CPU, ChildCPU Ticks
	// Pages is the resident set size in pages.
	Pages int64
}

// Describe reads /proc/PID/stat.
func Describe(pid int) (Proc, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Proc{}, fmt.Errorf("describe process %d: %w", pid, err)
	}
	p, ok := parseStat(text)
	if !ok {
		return Proc{}, fmt.Errorf("describe process %d: unexpected stat line %q", pid, text)
	}
	return p, nil
}

// String returns for example "trainer (pid 8812, stopped)".
func (p Proc) String() string {
	return p.Name + " (pid " + strconv.Itoa(p.PID) + ", " + p.StateName() + ")"
}

// StateName returns the state in words.
func (p Proc) StateName() string {
	switch p.State {
	case 'R':
		return "running"
	case 'S':
		return "sleeping"
	case 'D':
		return "uninterruptible"
	case 'T':
		return "stopped"
	case 't':
		return "traced"
	case 'Z', 'X':
		return "dead"
	default:
		return "state " + strconv.QuoteRune(rune(p.State))
	}
}

// dead reports whether no thread of p runs any more. A process whose main thread has exited before the others also has
// state Z, but lives.
func (p Proc) dead() bool { return (p.State == 'Z' || p.State == 'X') && p.Threads <= 1 }

// identity identifies a process uniquely, unlike its pid.
type identity struct {
	pid   int
	start Ticks
}

func (p Proc) identity() identity { return identity{p.PID, p.Start} }

// Fields of /proc/PID/stat, counted from the one after the name: proc_pid_stat(5)'s number minus 3.
const (
	statState     = 0
	statPPID      = 1
	statPGID      = 2
	statSID       = 3
	statFlags     = 6
	statUserTime  = 11
	statKernTime  = 12
	statChildUser = 13
	statChildKern = 14
	statThreads   = 17
	statStart     = 19
	statPages     = 21
	statEnvStart  = 47
	statEnvEnd    = 48
	statWordsRead = statPages + 1
)

// kernelThread is PF_KTHREAD in the field flags.
const kernelThread = 1 << 21

// cutStat splits a stat line into pid, name and the remaining fields. The name may contain blanks and parentheses, so
// it ends at the last one.
func cutStat(line []byte) (pid, name, words []byte, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open || end+2 > len(line) {
		return nil, nil, nil, false
	}
	return line[:open-1], line[open+1 : end], line[end+2:], true
}

func parseStat(line []byte) (p Proc, ok bool) {
	pid, name, words, ok := cutStat(line)
	if !ok {
		return Proc{}, false
	}
	var word [statWordsRead][]byte
	for i := range word {
		word[i], words, _ = bytes.Cut(words, []byte{' '})
	}
	if len(word[statState]) != 1 {
		return Proc{}, false
	}
	number := func(text []byte) int {
		n, valid := decimal(text)
		ok = ok && valid
		return int(n)
	}
	p = Proc{
		PID: number(pid), PPID: number(word[statPPID]), PGID: number(word[statPGID]), SID: number(word[statSID]),
		Name: printable(name), State: word[statState][0],
		Threads: number(word[statThreads]), Start: Ticks(number(word[statStart])),
		CPU:      Ticks(number(word[statUserTime]) + number(word[statKernTime])),
		ChildCPU: Ticks(number(word[statChildUser]) + number(word[statChildKern])),
		Pages:    int64(number(word[statPages])),
	}
	return p, ok && p.PID > 0
}

func printable(name []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(name))
}

// decimal parses an unsigned number below 1<<63.
func decimal(text []byte) (n uint64, ok bool) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	return n, err == nil
}

// procDir is an open /proc with one buffer: what a method returns is valid until the next call.
type procDir struct {
	fd     int
	lastFD int // an open file whose last word is the newest pid; -1: none
	buffer []byte
	names  []string
	failed error // of a file that exists for all we know; nil: none since it was cleared
}

// shortOfDescriptors reports whether an open failed because this process or the host has no free descriptor.
func shortOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

func openProc() (*procDir, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc", Err: err}
	}
	d := &procDir{fd: fd, buffer: make([]byte, 16<<10)}
	// The first needs CONFIG_CHECKPOINT_RESTORE; lxcfs fakes the second.
	if d.lastFD, err = unix.Openat(fd, "sys/kernel/ns_last_pid", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		if d.lastFD, err = unix.Openat(fd, "loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			d.lastFD = -1
		}
	}
	return d, nil
}

func (d *procDir) close() { _, _ = unix.Close(d.fd), unix.Close(d.lastFD) }

// newest returns the most recently allocated pid or tid; 0 if unknown.
func (d *procDir) newest() int {
	n, err := unix.Pread(d.lastFD, d.buffer[:128], 0)
	if err != nil || n == 0 {
		return 0
	}
	text := bytes.TrimSpace(d.buffer[:n])
	pid, _ := decimal(text[bytes.LastIndexAny(text, " \t")+1:])
	return int(pid)
}

// allocatedBetween returns the pids allocated after from, up to upto, with wrap-around; the newest first, as they may
// be short-lived. If there are many it returns only existing ones, and all is false.
func (d *procDir) allocatedBetween(from, upto int) (recent []int, all bool, err error) {
	const many = 256
	if 0 <= upto-from && upto-from <= many {
		for pid := upto; pid > from; pid-- {
			recent = append(recent, pid)
		}
		return recent, true, nil
	}
	pids, err := d.pids()
	return slices.DeleteFunc(pids, func(pid int) bool {
		if from < upto {
			return pid <= from || pid > upto
		}
		return pid <= from && pid > upto
	}), false, err
}

// pids lists the existing processes; new ones may be missing.
func (d *procDir) pids() ([]int, error) {
	if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		return nil, &os.PathError{Op: "seek", Path: "/proc", Err: err}
	}
	var pids []int
	for {
		n, err := unix.Getdents(d.fd, d.buffer)
		if err != nil {
			return nil, &os.PathError{Op: "getdents", Path: "/proc", Err: err}
		}
		if n <= 0 {
			return pids, nil
		}
		_, _, d.names = unix.ParseDirent(d.buffer[:n], -1, d.names[:0])
		for _, name := range d.names {
			if pid, err := strconv.Atoi(name); err == nil {
				pids = append(pids, pid)
			}
		}
	}
}

// stat describes a process; ok is false if it does not exist.
func (d *procDir) stat(pid int) (p Proc, ok bool) {
	line, err := d.read(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Proc{}, false
	}
	return parseStat(line)
}

// marker returns the job marker in the environment that p was started with; "" if none exists or it cannot be read.
// The verdict is foreign, unless p has vanished or is executing.
func (d *procDir) marker(p Proc) (Marker, verdict) {
	text, err := d.read(strconv.Itoa(p.PID) + "/environ")
	if p.State == 'Z' && (err != nil || len(text) == 0) {
		text, err = d.threadEnviron(p.PID), nil
	}
	switch {
	case err == unix.EACCES || err == unix.EPERM:
		return "", foreign
	case err != nil:
		return "", vanished
	case len(text) == 0:
		return "", d.explainEmpty(p)
	}
	return markerIn(text), foreign
}

// explainEmpty classifies a process without environment: it was started without one or is a kernel thread (foreign), is
// in execve(2) (executing) or in exit_group(2) (vanished).
func (d *procDir) explainEmpty(p Proc) verdict {
	line, err := d.read(strconv.Itoa(p.PID) + "/stat")
	if err != nil {
		return vanished
	}
	now, ok := parseStat(line)
	_, _, words, _ := cutStat(line)
	word := bytes.Fields(words)
	if !ok || len(word) <= statEnvEnd {
		return foreign
	}
	flags, _ := decimal(word[statFlags])
	switch {
	case now.dead() || now.Start != p.Start:
		return vanished
	case flags&kernelThread != 0:
		return foreign
	case string(word[statEnvEnd]) == "0":
		return executing
	}
	return foreign
}

// threadEnviron reads the environment from a living thread: an exited main thread has none.
func (d *procDir) threadEnviron(pid int) []byte {
	task := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(task)
	if err != nil {
		return nil
	}
	for _, thread := range threads {
		if text, err := d.read(strconv.Itoa(pid) + "/task/" + thread.Name() + "/environ"); err == nil && len(text) > 0 {
			return text
		}
	}
	return nil
}

// markerIn returns the marker in the contents of an environ file; "" if it is not the process's own (see env.Marked).
func markerIn(environ []byte) Marker {
	if !bytes.Contains(environ, []byte(MarkerVar+"=")) {
		return ""
	}
	return Marker(env.Marked(func(name string) (string, bool) { return variableIn(environ, name) }))
}

// variableIn returns the first value of a variable, like getenv(3).
func variableIn(environ []byte, name string) (string, bool) {
	for len(environ) > 0 {
		var variable []byte
		variable, environ, _ = bytes.Cut(environ, []byte{0})
		if n := len(name); len(variable) > n && variable[n] == '=' && string(variable[:n]) == name {
			return string(variable[n+1:]), true
		}
	}
	return "", false
}

// read returns the contents of a file below /proc.
func (d *procDir) read(name string) ([]byte, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if shortOfDescriptors(err) {
			d.failed = &os.PathError{Op: "open", Path: "/proc/" + name, Err: err}
		}
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		got, err := unix.Read(fd, d.buffer[n:])
		if err != nil {
			return nil, err
		}
		if n += got; got == 0 {
			return d.buffer[:n], nil
		}
		if n == len(d.buffer) {
			d.buffer = append(d.buffer, make([]byte, len(d.buffer))...)
		}
	}
}
