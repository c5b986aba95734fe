package diagnosis

import "strings"

// GoPanic finds the panic or fatal error that ended a Go program. It returns at most six lines: the message, the signal
// that caused it, and the first call outside of the runtime and the standard library.
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

// panicLines bounds the lines of a panic's message.
const panicLines = 4

// stackAfter returns the index of the first "goroutine N [state]:", or -1.
func stackAfter(lines []string) int {
	for i, line := range lines {
		if strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, "]:") {
			return i
		}
	}
	return -1
}

// panicText returns a panic's message without blank lines: its value, further panics, the signal.
func panicText(lines []string) []string {
	var text []string
	for _, line := range lines {
		if line != "" && len(text) < panicLines {
			text = append(text, line)
		}
	}
	return text
}

// goFrame returns the first call in the program's own code and its location, or else the first of the stack.
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
