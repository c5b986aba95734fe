package stacks

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// DumpSignal returns the signal upon which the process prints where it is. All but a
// signal of the user's own end it, so that this is only for what is to end anyway.
// There is none where the process would not hear it (it ignores it, or is stopped),
// and none whose default action would end it without a word.
//
// Go's runtime answers SIGQUIT with all goroutines. Python's faulthandler.enable()
// answers SIGABRT with all threads, faulthandler.register(N) a signal of the user's
// choice. Whose a handler is cannot be seen, but faulthandler takes SIGILL together with
// SIGABRT, and Open MPI, which answers that one with the frames of C, does not.
func DumpSignal(pid int, program Program) (syscall.Signal, bool) {
	status, err := os.ReadFile(file(pid, "status"))
	if err != nil {
		return 0, false
	}
	return question(string(status), program)
}

// question reads the text of /proc/PID/status.
func question(status string, program Program) (syscall.Signal, bool) {
	if strings.ContainsAny(statusField(status, "State"), "TtDZX") {
		return 0, false
	}
	caught, err := strconv.ParseUint(statusField(status, "SigCgt"), 16, 64)
	if err != nil {
		return 0, false
	}
	catches := func(sig syscall.Signal) bool { return caught&(1<<(sig-1)) != 0 }
	for _, sig := range questions[program] {
		if catches(sig) && (sig != syscall.SIGABRT || catches(syscall.SIGILL)) {
			return sig, true
		}
	}
	return 0, false
}

var questions = [...][]syscall.Signal{
	Other: nil, Go: {syscall.SIGQUIT}, Python: {syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2},
}

// statusField is the first word of a field of /proc/PID/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			word, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			return word
		}
	}
	return ""
}

// Limits of an answer, in bytes.
const (
	// answerLimit is how much of it is looked at: the main goroutine comes first.
	answerLimit = 256 << 10
	// heldLimit is how long a line may be that could begin one.
	heldLimit = 4 << 10
)

// DumpFilter finds in what a process prints its answer to a [DumpSignal], and takes it
// out. The zero value with a Program is ready; it is not safe for concurrent use.
type DumpFilter struct {
	Program Program

	place answerPlace
	held  []byte // the end of what came, which may be the beginning of the answer or the next after it
	text  []byte
}

// answerPlace is how far a stream has come.
type answerPlace uint8

const (
	before answerPlace = iota
	inside
	after
)

// Filter takes the next bytes of the stream and returns those before them and of
// them that are now known not to belong to the answer, in their order.
func (a *DumpFilter) Filter(p []byte) (rest []byte) {
	if a.place == after && len(a.held) == 0 {
		return p
	}
	a.held = append(a.held, p...)
	if a.place == before {
		rest = a.seek()
	}
	if a.place == inside {
		a.collect()
	}
	if a.place == after {
		rest = append(rest, a.held...)
		a.held = nil
	}
	return rest
}

// seek looks for the beginning of the answer and lets go of all that is before it.
func (a *DumpFilter) seek() []byte {
	begin, sure := a.begin(a.held)
	if sure {
		a.place = inside
	} else if len(a.held)-begin > heldLimit {
		begin = len(a.held)
	}
	rest := bytes.Clone(a.held[:begin])
	a.held = a.held[begin:]
	return rest
}

// begin is the place at which the answer begins, or may begin when more is known.
func (a *DumpFilter) begin(text []byte) (at int, sure bool) {
	for start := 0; start < len(text); {
		line, next, whole := cutLine(text[start:])
		at := start + max(0, a.opening(line))
		switch {
		case !whole:
			return start, false
		case a.opening(line) < 0:
		case a.Program == Python:
			return at, true
		default: // Go: the next line tells
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

// cutLine cuts off the first line; it has no end of line, and whole says whether it
// had one.
func cutLine(text []byte) (line, next []byte, whole bool) {
	line, next, whole = bytes.Cut(text, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), next, whole
}

// opening is where in a line an answer begins, -1 if it does not. A prompt may stand
// before it.
func (a *DumpFilter) opening(line []byte) int {
	if a.Program == Go {
		if bytes.HasSuffix(line, []byte(goFirst)) {
			return len(line) - len(goFirst)
		}
		return -1
	}
	return pythonOpening(string(line))
}

// collect moves whole lines of the answer from held to text, up to its end.
func (a *DumpFilter) collect() {
	for a.place == inside {
		line, next, whole := cutLine(a.held)
		if !whole {
			return
		}
		ends, belongs := a.ends(string(line))
		if ends {
			a.place = after
		}
		if ends && !belongs {
			return
		}
		if len(a.text) < answerLimit {
			a.text = append(append(a.text, line...), '\n')
		}
		a.held = next
	}
}

// ends reports whether the answer ends with a line, and whether that still belongs to
// it.
func (a *DumpFilter) ends(line string) (ends, belongs bool) {
	if a.Program == Go {
		return isLastRegister(line), true
	}
	belongs = len(a.text) == 0 || isFaulthandler(line)
	return !belongs, belongs
}

// Flush ends the search: an answer that has not begun will not come. It returns what
// was held back in vain.
func (a *DumpFilter) Flush() []byte {
	if a.place == inside && (a.Program == Go || isFaulthandler(string(a.held))) { // more of it may still come
		return nil
	}
	rest := a.held
	a.place, a.held = after, nil
	return rest
}

// Started reports whether any of the answer has come, Complete whether all of it has.
func (a *DumpFilter) Started() bool { return len(a.text) > 0 }

// Complete says no where the end of an answer cannot be told.
func (a *DumpFilter) Complete() bool { return a.Started() && a.place == after }

// Stack returns the innermost frames of the main thread or goroutine, none if there
// was no answer.
func (a *DumpFilter) Stack() []string {
	if a.Program == Go {
		return goStack(string(a.text))
	}
	return pythonStack(string(a.text))
}
