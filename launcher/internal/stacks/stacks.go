// Package stacks finds out what a process is doing right now: its Python frames with py-spy if that is installed, its
// state in the kernel, and, for a process that is about to be ended, the stacks that it prints on a signal.
package stacks

import (
	"context"
	"os"
	"path"
	"strconv"
	"strings"

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

// PySpy returns the frames of a Python program's main thread from `py-spy dump`, innermost first; if it is installed
// and fails, what to do about that. py-spy stops the process for some milliseconds and needs the right to trace it.
func PySpy(ctx context.Context, pid int) (frames []string, obstacle string) {
	text, err := child.CommandContext(ctx, "py-spy", "dump", "--pid", strconv.Itoa(pid)).CombinedOutput()
	if err != nil {
		scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
		return nil, pySpyObstacle(string(text), strings.TrimSpace(string(scope)))
	}
	return mainThread(string(text)), ""
}

// pySpyObstacle says how to remove what py-spy complains about. scope is Yama's limit on tracing, which is 0 or empty
// without one.
func pySpyObstacle(complaint, scope string) string {
	first, _, _ := strings.Cut(complaint, "\n")
	switch {
	case first == "": // it is not installed, or took too long
		return ""
	case !strings.HasPrefix(first, "Permission Denied"):
		return "run `py-spy dump` yourself, as it failed (" + strings.TrimPrefix(first, "Error: ") + "),"
	case strings.Trim(scope, "0") != "":
		return "allow py-spy to trace processes (`sudo sysctl kernel.yama.ptrace_scope=0`)"
	}
	return "allow py-spy to trace processes (in containers `docker run --cap-add SYS_PTRACE`)"
}

// mainThread returns the frames of the main thread in py-spy's output:
//
//	Thread 4711 (idle): "MainThread"
//	    recv (trainer.py:12)
//	    <module> (trainer.py:30)
func mainThread(text string) (lines []string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "Thread ") {
			inside = strings.Contains(line, `"MainThread"`)
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

// WaitsForChild reports whether the process only waits for one of its children, as a shell does.
func WaitsForChild(pid int) bool {
	channel := WaitChannel(pid)
	return channel == "do_wait" || channel == "sigsuspend"
}
