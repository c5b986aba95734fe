// Package stacks asks what a process is doing right now: its Python frames by
// py-spy where that is installed, what the kernel shows, and, of a program that is
// to end anyway, what it prints itself when it gets the right signal.
package stacks

import (
	"context"
	"os"
	"path"
	"strconv"
	"strings"

	"gorun/launcher/internal/process/child"
)

// frames is how many lines of a stack are kept: the innermost tell.
const frames = 8

// Program is what kind of program a process runs, as far as that tells how its
// stack can be had.
type Program uint8

const (
	// Other is a program that can only be looked at from the kernel's side.
	Other Program = iota
	// Go is a program whose main function is Go's.
	Go
	// Python is a Python interpreter.
	Python
)

// ProgramOf looks at the file that the process executes; it is Other where nobody
// may look.
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

// PySpy is what `py-spy dump` says of the main thread of a Python program, the
// innermost frame first; none without it. It stops the process for some
// milliseconds and needs the right to trace it.
func PySpy(ctx context.Context, pid int) []string {
	text, err := child.CommandContext(ctx, "py-spy", "dump", "--pid", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return mainThread(string(text))
}

// mainThread takes the frames of the main thread out of py-spy's text:
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

// Kernel is the stack of the main thread in the kernel, the innermost function first,
// which as a rule only root may read. A process that runs is in none.
func Kernel(pid int) (lines []string) {
	text, _ := os.ReadFile(file(pid, "stack"))
	for line := range strings.Lines(string(text)) {
		// [<0>] do_epoll_wait+0x60/0x80
		_, function, _ := strings.Cut(strings.TrimSpace(line), " ")
		if function, _, _ = strings.Cut(function, "+"); function != "" && len(lines) < frames {
			lines = append(lines, function+" (kernel)")
		}
	}
	return lines
}

// WaitChannel is the kernel's function in which the main thread sleeps; "" for one
// that does not, and where the kernel does not tell.
func WaitChannel(pid int) string {
	channel, _ := os.ReadFile(file(pid, "wchan"))
	if name := strings.TrimSpace(string(channel)); name != "0" {
		return name
	}
	return ""
}

// WaitsForChild reports whether the process does nothing but wait for one of its
// children, as a shell does for the program that it runs.
func WaitsForChild(pid int) bool {
	channel := WaitChannel(pid)
	return channel == "do_wait" || channel == "sigsuspend"
}
