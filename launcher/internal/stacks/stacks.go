// Package stacks finds out what a process is doing right now: its frames, for Python from its memory and otherwise with
// a debugger that is installed, its state in the kernel, and, for a process that is about to be ended, the stacks that
// it prints on a signal.
package stacks

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process/child"
)

// frames bounds the lines of a stack; the innermost are kept.
const frames = 8

// Program is the kind of a program, which decides how to get its stack.
type Program uint8

const (
	// Other is any other program, of which only the kernel's view is available.
	Other Program = iota
	// Go is a program whose main function is Go's.
	Go
	// Python is a Python interpreter.
	Python
)

// ProgramOf returns the kind of a process's executable, Other if it cannot be read.
func ProgramOf(pid int) Program {
	exe, err := os.Readlink(file(pid, "exe"))
	switch {
	case err != nil:
		return Other
	case strings.HasPrefix(path.Base(exe), "python"):
		return Python
	case isGo(file(pid, "exe")):
		return Go
	}
	return Other
}

func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// PythonStack returns the frames of a Python program's main thread, innermost first, without stopping it: from its
// memory, or for a version that gorun does not know from py-spy. Calls of mpi4py are no frames; they come from
// eu-stack, which stops the program for some milliseconds, or else from the program's text. obstacle says what to do
// without frames or such a call.
func PythonStack(ctx context.Context, pid int) (lines []string, obstacle string) {
	const aim = " to see Python's frames"
	var p python
	lines, err := p.frames(pid)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, allow(pid) + aim
	case !errors.Is(err, errVersion):
		var text, call string
		if strings.Contains(p.maps, "/mpi4py/") {
			if text, obstacle = euStack(ctx, pid, "-m"); obstacle == "" {
				call = mpi4pyCall(text)
			}
		}
		if call == "" && len(lines) > 0 {
			call = p.awaits(pid, obstacle != "")
		}
		if call != "" {
			lines, obstacle = append([]string{call}, lines...), ""
		}
		return lines, obstacle
	}
	out, err := child.CommandContext(ctx, "py-spy", "dump", "--nonblocking", "--pid", strconv.Itoa(pid)).CombinedOutput()
	first, _, _ := strings.Cut(string(out), "\n")
	switch {
	case err == nil:
		return mainThread(string(out)), ""
	case strings.HasPrefix(first, "Permission Denied"):
		return nil, allow(pid) + aim
	case first != "":
		return nil, "run `py-spy dump` yourself, as it failed (" + strings.TrimPrefix(first, "Error: ") + ")," + aim
	}
	return nil, "run `pip install py-spy`" + aim
}

// nativeTime bounds a reading of debug information.
const nativeTime = 3 * time.Second

// NativeStack returns the frames of a C or C++ program's main thread, innermost first, from eu-stack, which stops the
// program for some milliseconds. obstacle says what to do without frames.
func NativeStack(ctx context.Context, pid int) (lines []string, obstacle string) {
	text, obstacle := euStack(ctx, pid, "-m", "-i", "-s")
	return nativeFrames(text), obstacle
}

// euStack returns what eu-stack prints, or what to do about it.
func euStack(ctx context.Context, pid int, options ...string) (text, obstacle string) {
	const aim = " to see C and C++ frames"
	status, err := os.ReadFile(file(pid, "status"))
	if err != nil || strings.ContainsAny(statusField(string(status), "State"), "TtZX") {
		return "", ""
	}
	if _, err = os.Readlink(file(pid, "exe")); errors.Is(err, os.ErrPermission) {
		return "", allow(pid) + " to see the rank's frames"
	}
	ctx, cancel := context.WithTimeout(ctx, nativeTime)
	defer cancel()
	c := child.CommandContext(ctx, "eu-stack", append(options, "-1", "-p", strconv.Itoa(pid))...)
	c.Env = append(c.Environ(), "DEBUGINFOD_URLS=") // no downloads
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if ctx.Err() != nil { // the kernel may deliver the SIGSTOP of a debugger that was killed
		_ = unix.Kill(pid, unix.SIGCONT) // it may have ended
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", "run `sudo apt-get install elfutils` (or dnf)" + aim
	case strings.Contains(string(out), "not permitted"):
		return "", allow(pid) + aim
	}
	return string(out), ""
}

// mpi4pyFrame follows the name of mpi4py's function in a frame.
const mpi4pyFrame = " (mpi4py)"

// mpi4pyCall returns the call of mpi4py in what eu-stack prints: "allreduce (mpi4py)".
//
//	#7  0x00007f0be1a8a7ba __pyx_pw_6mpi4py_3MPI_4Comm_293allreduce - /home/me/.venv/lib/…
func mpi4pyCall(text string) string {
	_, name, found := strings.Cut(text, "__pyx_pw_6mpi4py_3MPI_")
	if name, _, _ = strings.Cut(name, " "); !found {
		return ""
	}
	return name[strings.LastIndexAny(name, "0123456789")+1:] + mpi4pyFrame
}

// nativeFrames reads what eu-stack prints. What MPI and the C library do within their functions is left out.
//
//	TID 4711:
//	#0  0x00007fe901bd42ad read - /usr/lib/x86_64-linux-gnu/libc.so.6
//	    ../sysdeps/unix/sysv/linux/read.c:26:10
//	#1  0x00005589b3d861d6 Grid<double>::step(int) - /home/me/heat
func nativeFrames(text string) (lines []string) {
	var all []goFrame
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		_, frame, _ := strings.Cut(line, " 0x")
		at := max(strings.LastIndex(frame, " - "), 0)
		_, function, named := strings.Cut(frame[:at], " ")
		switch last := len(all) - 1; {
		case named:
			all = append(all, goFrame{withoutArguments(function), path.Base(frame[at+3:])})
		case last >= 0 && strings.Count(line, ":") == 2 && !all[last].inLibc():
			all[last].place = path.Base(line[:strings.LastIndexByte(line, ':')])
		}
	}
	call := slices.IndexFunc(all, func(f goFrame) bool {
		return strings.HasPrefix(f.function, "MPI_") || strings.HasPrefix(f.function, "PMPI_")
	})
	if call < 0 {
		call = slices.IndexFunc(all, func(f goFrame) bool { return !f.inLibc() }) - 1
	}
	for _, f := range all[max(call, 0):] {
		if f.inLibc() { // __GI___read
			f.function = strings.TrimLeft(strings.TrimPrefix(f.function, "__GI_"), "_")
		}
		if lines = append(lines, f.String()); f.function == "main" || len(lines) == frames {
			break
		}
	}
	return lines
}

func (f goFrame) inLibc() bool { return strings.HasPrefix(f.place, "libc.so") }

// withoutArguments returns a C++ function without its arguments and those of templates.
func withoutArguments(function string) string {
	depth := 0
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		switch c {
		case '(', '<':
			depth++
			return -1
		case ')', '>':
			depth--
			return -1
		}
		if depth > 0 {
			return -1
		}
		return c
	}, function))
}

// allow says how to get the right to read a process.
func allow(pid int) string {
	status, _ := os.ReadFile(file(pid, "status"))
	owner, _, _ := strings.Cut(statusField(string(status), "Uid"), "\t")
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return allowing(owner, strconv.Itoa(os.Geteuid()), strings.TrimSpace(string(scope)))
}

// allowing chooses by the users of the process and of gorun, and by Yama's limit, which is 0 or empty without one.
func allowing(owner, self, scope string) string {
	switch {
	case owner != self && self != "0":
		return "run gorun as root or as the rank's user " + owner
	case scope == "3":
		return "boot with `sysctl.kernel.yama.ptrace_scope=0`, as it is 3 until then,"
	case strings.Trim(scope, "0") != "":
		return "allow gorun to read ranks (`sudo sysctl kernel.yama.ptrace_scope=0`)"
	}
	return "allow gorun to read ranks (in containers `docker run --cap-add SYS_PTRACE`)"
}

// mainThread returns the frames of the main thread in py-spy's output, or of the first one: threads have no names in a
// program that does not import threading.
//
//	Thread 4711 (idle): "MainThread"
//	    recv (trainer.py:12)
//	    <module> (trainer.py:30)
func mainThread(text string) (lines []string) {
	inside, isMain := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "Thread ") {
			if isMain {
				break
			}
			if isMain = strings.Contains(line, `"MainThread"`); isMain {
				lines = nil
			}
			inside = len(lines) == 0
			continue
		}
		if frame := strings.TrimSpace(line); inside && frame != "" && len(lines) < frames {
			lines = append(lines, frame)
		}
	}
	return lines
}

// Kernel returns the main thread's stack in the kernel, from the innermost function to the system call. Usually only
// root may read it. It is empty for a running process.
func Kernel(pid int) (lines []string) {
	text, _ := os.ReadFile(file(pid, "stack"))
	for line := range strings.Lines(string(text)) {
		// [<0>] do_epoll_wait+0x60/0x80
		_, function, _ := strings.Cut(strings.TrimSpace(line), " ")
		function, _, _ = strings.Cut(function, "+")
		if strings.HasPrefix(function, "irqentry_") { // a program that was interrupted
			break
		}
		if function != "" && len(lines) < frames {
			lines = append(lines, function+" (kernel)")
		}
		if strings.Contains(function, "_sys_") { // what follows is the same for all
			break
		}
	}
	return lines
}

// WaitChannel returns the kernel function in which the main thread sleeps; "" if it does not sleep or it is unknown.
func WaitChannel(pid int) string {
	channel, _ := os.ReadFile(file(pid, "wchan"))
	if name := strings.TrimSpace(string(channel)); name != "0" {
		return name
	}
	return ""
}

// ReadsInput reports whether the main thread waits to read the standard input that the process shares with another.
func ReadsInput(pid, other int) bool {
	call, _ := os.ReadFile(file(pid, "syscall"))
	input, _ := os.Readlink(file(pid, "fd/0"))
	shared, _ := os.Readlink(file(other, "fd/0"))
	return strings.HasPrefix(string(call), strconv.Itoa(unix.SYS_READ)+" 0x0 ") && input == shared
}

// WaitsForChild reports whether the process only waits for one of its children, as a shell does.
func WaitsForChild(pid int) bool {
	channel := WaitChannel(pid)
	return channel == "do_wait" || channel == "sigsuspend"
}
