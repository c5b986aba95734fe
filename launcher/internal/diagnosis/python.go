package diagnosis

import (
	"slices"
	"strings"
)

// PythonTraceback finds the last exception. It returns at most seven lines: the last frame in the user's own code,
// the frame that raised if that is another, each with its source line, and the exception. The heading may be missing,
// as for a syntax error or a truncated output.
//
// The last exception is the cause also if it wraps one of another process (torch.multiprocessing); in a chain it is the
// one that ended the program.
func PythonTraceback(lines []string) (summary []string, ok bool) {
	lines = cleanAll(lines)
	for i := len(lines) - 1; i > 0; i-- {
		if !isException(lines[i]) {
			continue
		}
		if frames := framesBefore(lines[:i]); len(frames) > 0 {
			return append(relevant(frames), exceptionText(lines[i:])...), true
		}
	}
	return nil, false
}

// PythonCrash finds what Python's faulthandler prints when a signal ends the program. It returns at most three lines:
// the error, the innermost frame, and the last one in the user's own code if that is another. rest has the lines
// before, in which a C++ library may say why it called abort.
func PythonCrash(lines []string) (summary, rest []string, ok bool) {
	lines = cleanAll(lines)
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Fatal Python error: ") })
	if at < 0 {
		return nil, nil, false
	}
	var frames []frame // of the thread that crashed; package output keeps no others
	for _, line := range lines[at:] {
		if strings.HasPrefix(line, `  File "`) {
			frames = append(frames, frame{place: line})
		}
	}
	if len(frames) == 0 {
		return nil, nil, false
	}
	summary = []string{lines[at], frames[0].place}
	if own := slices.IndexFunc(frames, func(f frame) bool { return !f.isLibrary() }); own > 0 {
		summary = append(summary, frames[own].place)
	}
	return summary, lines[:at], true
}

// isException reports whether a line has the form of a traceback's last line: the dotted name of a class, and
// optionally a colon and a message.
func isException(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x80 && r != '.' && r != '_' && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	})
}

// exceptionText returns the exception's line, and the next nonblank one if the first has no message.
func exceptionText(lines []string) []string {
	text := lines[:1]
	if !strings.HasSuffix(lines[0], ":") {
		return text
	}
	for _, line := range lines[1:] {
		if strings.TrimSpace(line) != "" {
			return append(text[:1:1], line)
		}
	}
	return text
}

// frame is a location in a traceback.
type frame struct {
	place  string // `  File "x.py", line 3, in f`
	source string // the source line, "" if unknown
}

// framesBefore reads the frames directly before an exception's line, innermost last.
func framesBefore(lines []string) []frame {
	start := len(lines)
	for start > 0 && strings.HasPrefix(lines[start-1], "  ") {
		start--
	}
	var frames []frame
	for _, line := range lines[start:] {
		switch {
		case strings.HasPrefix(line, `  File "`):
			frames = append(frames, frame{place: line})
		case len(frames) > 0 && frames[len(frames)-1].source == "" && strings.HasPrefix(line, "    "):
			frames[len(frames)-1].source = line
		}
	}
	return frames
}

// relevant returns the lines of the frames that locate the mistake.
func relevant(frames []frame) []string {
	last := len(frames) - 1
	own := last
	for own >= 0 && frames[own].isLibrary() {
		own--
	}
	var lines []string
	if own >= 0 && own != last {
		lines = frames[own].lines()
	}
	return append(lines, frames[last].lines()...)
}

func (f frame) lines() []string {
	if f.source == "" {
		return []string{f.place}
	}
	return []string{f.place, f.source}
}

// isLibrary reports whether a frame is in Python itself or an installed package.
func (f frame) isLibrary() bool {
	return strings.Contains(f.place, "/site-packages/") || strings.Contains(f.place, "/dist-packages/") ||
		strings.Contains(f.place, "/lib/python3") || strings.Contains(f.place, `File "<frozen `)
}
