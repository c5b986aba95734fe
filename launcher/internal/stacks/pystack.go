package stacks

import (
	"path"
	"slices"
	"strings"
)

// What Python's faulthandler prints. After faulthandler.register it has no first two lines, and "Stack" instead of the
// threads if it shows only one:
//
//	Fatal Python error: Aborted
//
//	Thread 0x00007fee795ba6c0 (most recent call first):
//	  File "/usr/lib/python3.11/threading.py", line 327 in wait
//
//	Current thread 0x00007fee7a403b80 (most recent call first):
//	  File "/home/me/train.py", line 8 in step
//	  File "/home/me/train.py", line 10 in <module>
const (
	pythonFatal   = "Fatal Python error: Aborted"
	pythonHeading = "(most recent call first):"
	pythonCurrent = "Current thread 0x"
	pythonOther   = "Thread 0x"
	pythonSingle  = "Stack (most"
)

// pythonOpening returns the offset in a line at which such a dump begins, or -1.
func pythonOpening(line string) int {
	if strings.HasSuffix(line, pythonFatal) {
		return len(line) - len(pythonFatal)
	}
	if strings.HasSuffix(line, pythonHeading) {
		for _, heading := range []string{pythonCurrent, pythonOther, pythonSingle} {
			if at := strings.LastIndex(line, heading); at >= 0 {
				return at
			}
		}
	}
	return -1
}

// isFaulthandler reports whether a line may belong to such a dump.
func isFaulthandler(line string) bool {
	return line == "" || slices.ContainsFunc([]string{
		`  File "`, "  ...", "  <", "  Binary file ", pythonCurrent, pythonOther, pythonSingle, pythonFatal,
		"Current thread's C stack trace ", "Extension modules: ",
	}, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
}

// pythonStack returns the frames of the thread that got the signal, normally the main one, or else of the last thread,
// which is the oldest.
func pythonStack(text string) (lines []string) {
	current := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch frame, ok := pythonFrame(line); {
		case ok && len(lines) < frames:
			lines = append(lines, frame)
		case !strings.HasSuffix(line, pythonHeading):
		case current:
			return lines
		default:
			lines, current = nil, !strings.HasPrefix(line, pythonOther)
		}
	}
	return lines
}

// pythonFrame reads `  File "/home/me/train.py", line 8 in step`.
func pythonFrame(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, `  File "`)
	if !ok {
		return "", false
	}
	at := strings.LastIndex(rest, `", line `)
	if at < 0 {
		return "", false
	}
	number, function, ok := strings.Cut(rest[at+len(`", line `):], " in ")
	return function + " (" + pythonPlace(rest[:at]) + ":" + number + ")", ok
}

// pythonPlace returns the last part of a file's name, with its directories if it belongs to a library or to Python:
// "torch/distributed/distributed_c10d.py", "python3.11/threading.py".
func pythonPlace(file string) string {
	for _, root := range []string{"/site-packages/", "/dist-packages/", "/lib/"} {
		at := strings.LastIndex(file, root)
		if at >= 0 && (root != "/lib/" || strings.HasPrefix(file[at:], "/lib/python3.")) {
			return file[at+len(root):]
		}
	}
	return path.Base(file)
}
