package stacks

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// DumpSignal returns the signal on which the process prints its stacks. Most of these signals also end it, so this is
// only for processes that are about to be ended. ok is false if the process would not handle any: it ignores them, is
// stopped, or would die silently by their default action.
//
// Go's runtime dumps all goroutines on SIGQUIT. Python's faulthandler.enable() dumps all threads on SIGABRT, and
// faulthandler.register(N) on a signal of the user's choice. The owner of a handler is not visible, but faulthandler
// handles SIGILL together with SIGABRT; Open MPI, which prints C frames on SIGABRT, does not.
func DumpSignal(pid int, program Program) (syscall.Signal, bool) {
	status, err := os.ReadFile(file(pid, "status"))
	if err != nil {
		return 0, false
	}
	return dumpSignal(string(status), program)
}

// dumpSignal reads the text of /proc/PID/status.
func dumpSignal(status string, program Program) (syscall.Signal, bool) {
	if strings.ContainsAny(statusField(status, "State"), "TtDZX") {
		return 0, false
	}
	caught, err := strconv.ParseUint(statusField(status, "SigCgt"), 16, 64)
	if err != nil {
		return 0, false
	}
	catches := func(sig syscall.Signal) bool { return caught&(1<<(sig-1)) != 0 }
	for _, sig := range dumpSignals[program] {
		if catches(sig) && (sig != syscall.SIGABRT || catches(syscall.SIGILL)) {
			return sig, true
		}
	}
	return 0, false
}

var dumpSignals = [...][]syscall.Signal{
	Other: nil, Go: {syscall.SIGQUIT}, Python: {syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2},
}

// statusField returns the first word of a field of /proc/PID/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			word, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			return word
		}
	}
	return ""
}

// Limits of a dump, in bytes.
const (
	// dumpLimit bounds what is kept of it: the main goroutine comes first.
	dumpLimit = 256 << 10
	// heldLimit bounds a line that may begin a dump.
	heldLimit = 4 << 10
)

// DumpFilter extracts a stack dump from the output of a process that got its [DumpSignal]. The zero value with a
// Program is ready to use. It is not safe for concurrent use.
type DumpFilter struct {
	Program Program

	position position
	held     []byte // the end of the stream, which may begin the dump or follow it
	text     []byte
}

// position is where in the stream the filter is, relative to the dump.
type position uint8

const (
	before position = iota
	inside
	after
)

// Filter takes the next bytes of the stream. It returns the bytes, held back ones included, that are known not to
// belong to the dump.
func (f *DumpFilter) Filter(p []byte) (rest []byte) {
	if f.position == after && len(f.held) == 0 {
		return p
	}
	f.held = append(f.held, p...)
	if f.position == before {
		rest = f.seek()
	}
	if f.position == inside {
		f.collect()
	}
	if f.position == after {
		rest = append(rest, f.held...)
		f.held = nil
	}
	return rest
}

// seek looks for the beginning of the dump and returns what precedes it.
func (f *DumpFilter) seek() []byte {
	begin, sure := f.begin(f.held)
	if sure {
		f.position = inside
	} else if len(f.held)-begin > heldLimit {
		begin = len(f.held)
	}
	rest := bytes.Clone(f.held[:begin])
	f.held = f.held[begin:]
	return rest
}

// begin returns the offset at which the dump begins, or may begin if it is not sure yet.
func (f *DumpFilter) begin(text []byte) (at int, sure bool) {
	for start := 0; start < len(text); {
		line, next, whole := cutLine(text[start:])
		at := start + max(0, f.opening(line))
		switch {
		case !whole:
			return start, false
		case f.opening(line) < 0:
		case f.Program == Python:
			return at, true
		default: // Go: it depends on the next line
			if second, _, _ := cutLine(next); len(second) < len(goSecond) && bytes.HasPrefix([]byte(goSecond), second) {
				return at, false
			} else if bytes.HasPrefix(second, []byte(goSecond)) {
				return at, true
			}
		}
		start = len(text) - len(next)
	}
	return len(text), false
}

// cutLine cuts off the first line and its line end; whole reports whether it had one.
func cutLine(text []byte) (line, next []byte, whole bool) {
	line, next, whole = bytes.Cut(text, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), next, whole
}

// opening returns the offset in a line at which a dump begins, such as after a prompt, or -1.
func (f *DumpFilter) opening(line []byte) int {
	if f.Program == Go {
		if bytes.HasSuffix(line, []byte(goFirst)) {
			return len(line) - len(goFirst)
		}
		return -1
	}
	return pythonOpening(string(line))
}

// collect moves whole lines of the dump from held to text, up to its end.
func (f *DumpFilter) collect() {
	for f.position == inside {
		line, next, whole := cutLine(f.held)
		if !whole {
			return
		}
		ends, belongs := f.ends(string(line))
		if ends {
			f.position = after
		}
		if ends && !belongs {
			return
		}
		if len(f.text) < dumpLimit {
			f.text = append(append(f.text, line...), '\n')
		}
		f.held = next
	}
}

// ends reports whether the dump ends with a line, and whether that line still belongs to it.
func (f *DumpFilter) ends(line string) (ends, belongs bool) {
	if f.Program == Go {
		return isLastRegister(line), true
	}
	belongs = len(f.text) == 0 || isFaulthandler(line)
	return !belongs, belongs
}

// Flush ends the search for a dump that has not begun, and returns what was held back.
func (f *DumpFilter) Flush() []byte {
	if f.position == inside && (f.Program == Go || isFaulthandler(string(f.held))) { // more of it may still come
		return nil
	}
	rest := f.held
	f.position, f.held = after, nil
	return rest
}

// Started reports whether any of the dump has come.
func (f *DumpFilter) Started() bool { return len(f.text) > 0 }

// Complete reports whether all of the dump has come. It may stay false if the end is not recognizable.
func (f *DumpFilter) Complete() bool { return f.Started() && f.position == after }

// Stack returns the innermost frames of the main thread or goroutine, none without a dump.
func (f *DumpFilter) Stack() []string {
	if f.Program == Go {
		return goStack(string(f.text))
	}
	return pythonStack(string(f.text))
}
