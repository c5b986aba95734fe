package diagnosis

import "strings"

// GoPanic finds the panic or fatal error that ended a Go program among lines and
// returns what matters of it, at most six lines: its text, the signal behind it, and
// the first call that is not the runtime's or the standard library's.
func GoPanic(lines []string) (summary []string, ok bool) {
	lines = cleanAll(lines)
	for i, line := range lines {
		if !strings.HasPrefix(line, "panic: ") && !strings.HasPrefix(line, "fatal error: ") {
			continue
		}
		stack := stackAfter(lines[i+1:])
		if stack < 0 {
			continue
		}
		summary = panicText(lines[i : i+1+stack])
		return append(summary, goFrame(lines[i+1+stack:])...), true
	}
	return nil, false
}

// panicLines is how many lines of a panic's own text are kept.
const panicLines = 4

// stackAfter is the index of the first "goroutine N [state]:", or -1.
func stackAfter(lines []string) int {
	for i, line := range lines {
		if strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, "]:") {
			return i
		}
	}
	return -1
}

// panicText is a panic's text without blank lines: what was panicked with, panics
// that followed, the signal.
func panicText(lines []string) []string {
	var text []string
	for _, line := range lines {
		if line != "" && len(text) < panicLines {
			text = append(text, line)
		}
	}
	return text
}

// goFrame is the first call of a goroutine's stack in the program's own code, with its
// place; the first of all if there is none.
func goFrame(stack []string) []string {
	var first []string
	for i := 1; i+1 < len(stack) && strings.HasPrefix(stack[i+1], "    "); i += 2 {
		call := []string{stack[i], stack[i+1]}
		if first == nil {
			first = call
		}
		if !isGoLibrary(stack[i], stack[i+1]) {
			return call
		}
	}
	return first
}

func isGoLibrary(call, place string) bool {
	return strings.HasPrefix(call, "panic(") || strings.HasPrefix(call, "runtime.") || strings.Contains(place, "/go/src/")
}
