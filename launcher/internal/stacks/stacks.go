// Package stacks asks what a process is doing right now: its Python frames by
// py-spy where that is installed, else what the kernel shows.
package stacks

import (
	"context"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
)

// frames is how many lines of a stack are kept: the innermost tell.
const frames = 8

// Of returns the innermost lines of the process's main thread, none where nobody
// may look.
func Of(ctx context.Context, pid int) []string {
	if isPython(pid) {
		if lines := python(ctx, pid); len(lines) > 0 {
			return lines
		}
	}
	return kernel(pid)
}

func isPython(pid int) bool {
	exe, err := os.Readlink(file(pid, "exe"))
	return err == nil && strings.HasPrefix(path.Base(exe), "python")
}

func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// python is what `py-spy dump` says of the main thread. It stops the process for
// some milliseconds and needs the right to trace it.
func python(ctx context.Context, pid int) []string {
	text, err := exec.CommandContext(ctx, "py-spy", "dump", "--pid", strconv.Itoa(pid)).Output()
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

// kernel is where the main thread is in the kernel: its stack, which only root may
// read, or the function that it sleeps in. A process that runs is in none.
func kernel(pid int) (lines []string) {
	text, _ := os.ReadFile(file(pid, "stack"))
	for line := range strings.Lines(string(text)) {
		// [<0>] do_epoll_wait+0x60/0x80
		_, function, _ := strings.Cut(strings.TrimSpace(line), " ")
		if function, _, _ = strings.Cut(function, "+"); function != "" && len(lines) < frames {
			lines = append(lines, function+" (kernel)")
		}
	}
	if len(lines) > 0 {
		return lines
	}
	channel, _ := os.ReadFile(file(pid, "wchan"))
	if name := strings.TrimSpace(string(channel)); name != "" && name != "0" {
		return []string{name + " (kernel)"}
	}
	return nil
}
