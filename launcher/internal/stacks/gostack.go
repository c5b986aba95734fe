package stacks

import (
	"path"
	"slices"
	"strings"
)

// What Go's runtime prints upon SIGQUIT:
//
//	SIGQUIT: quit
//	PC=0x40916e m=0 sigcode=0
//
//	goroutine 1 gp=0xabe8ccde1e0 m=nil [chan receive, 5 minutes]:
//	runtime.gopark(0x7fad3c896a00?, 0x2000000000070?, 0x88?, 0xf6?, 0x7fad3c896a00?)
//		/usr/local/go/src/runtime/proc.go:462 +0xce fp=0xabe8cd24e50 sp=0xabe8cd24e30 pc=0x48044e
//	main.exchange(...)
//		/home/me/main.go:10
//
//	rax    0xfffffffffffffffc
//	…
//	gs     0x0
const (
	goFirst  = "SIGQUIT: quit"
	goSecond = "PC="
)

// isLastRegister reports whether a line is the last of a dump: the last register on amd64 or arm64.
func isLastRegister(line string) bool {
	return strings.HasPrefix(line, "gs     0x") || strings.HasPrefix(line, "fault   0x")
}

// goroutine is a goroutine in a dump.
type goroutine struct {
	main   bool
	state  string // "chan receive"
	frames []goFrame
}

type goFrame struct{ function, place string }

func (f goFrame) String() string { return f.function + " (" + f.place + ")" }

// goStack returns the stack of the main goroutine, with its state. If it waits for other goroutines, the stack of the
// first one that runs the program's own code follows.
func goStack(text string) (lines []string) {
	all := goroutines(text)
	first := slices.IndexFunc(all, func(g goroutine) bool { return g.main })
	if first < 0 { // it may have called runtime.Goexit
		if first = slices.IndexFunc(all, goroutine.isUsers); first < 0 {
			return nil
		}
	}
	g := all[first]
	lines = g.lines()
	if strings.Contains(g.state, "WaitGroup") || g.state == "semacquire" {
		if other := slices.IndexFunc(all, func(g goroutine) bool { return !g.main && g.isUsers() }); other >= 0 {
			more := all[other].lines()
			more[0] = "in another goroutine: " + more[0]
			lines = append(lines[:min(len(lines), 2)], more...)
		}
	}
	return lines[:min(len(lines), frames)]
}

// goroutines parses a dump, without goroutine 0, which is a thread's own stack.
func goroutines(text string) (all []goroutine) {
	var call string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if number, state, ok := goHeader(line); ok {
			if open = number != "0"; open {
				all = append(all, goroutine{main: number == "1", state: state})
			}
			call = ""
			continue
		}
		switch {
		case line == "":
			open = false
		case !open:
		case strings.HasPrefix(line, "\t") && call != "":
			g := &all[len(all)-1]
			g.frames = append(g.frames, goFrame{call, goPlace(line)})
			call = ""
		case strings.HasSuffix(line, ")") && !strings.HasPrefix(line, "created by "):
			call = line[:max(0, strings.LastIndexByte(line, '('))]
		default:
			call = ""
		}
	}
	return all
}

// goHeader reads "goroutine 1 gp=0xc0 m=nil [chan receive, 5 minutes]:". It drops the duration, which differs between
// ranks that wait for the same thing.
func goHeader(line string) (number, state string, ok bool) {
	rest, ok := strings.CutPrefix(line, "goroutine ")
	if !ok || !strings.HasSuffix(rest, "]:") {
		return "", "", false
	}
	head, state, ok := strings.Cut(strings.TrimSuffix(rest, "]:"), "[")
	number, _, _ = strings.Cut(head, " ")
	state, _, _ = strings.Cut(state, ",")
	if state == "runnable" { // waiting for a CPU
		state = "running"
	}
	return number, state, ok
}

// goPlace reads "\t/home/me/main.go:10 +0xce fp=0x…".
func goPlace(line string) string {
	place, _, _ := strings.Cut(strings.TrimSpace(line), " +0x")
	return path.Base(place)
}

// lines returns the goroutine's frames without those of the runtime, and only the outermost of the standard library.
func (g goroutine) lines() (lines []string) {
	list := slices.DeleteFunc(slices.Clone(g.frames), func(f goFrame) bool {
		return strings.HasPrefix(f.function, "runtime.")
	})
	if own := slices.IndexFunc(list, func(f goFrame) bool { return !f.isLibrary() }); own > 1 {
		list = list[own-1:]
	}
	for _, f := range list {
		lines = append(lines, f.String())
	}
	if len(lines) == 0 { // it runs on another thread, whose stack is unavailable
		return []string{"goroutine [" + g.state + "]"}
	}
	lines[0] += " [" + g.state + "]"
	return lines
}

// isUsers reports whether the goroutine runs code outside of the standard library.
func (g goroutine) isUsers() bool {
	return slices.ContainsFunc(g.frames, func(f goFrame) bool { return !f.isLibrary() })
}

// isLibrary reports whether a function belongs to the standard library, by the first element of its package's path.
func (f goFrame) isLibrary() bool {
	root := f.function[:strings.IndexAny(f.function+".", "./")]
	_, found := slices.BinarySearch(libraryRoots, root)
	return found
}

// libraryRoots are the first path elements of Go's standard packages, sorted.
var libraryRoots = []string{
	"archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed",
	"encoding",
	"errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter", "log", "maps",
	"math",
	"mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings",
	"structs",
	"sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "vendor", "weak",
}
