package diagnosis

import "strings"

// PythonTraceback finds the last exception among lines and returns what matters of it,
// at most seven lines: the last frame of the user's own code, the frame that raised if
// that is another, each with its source line, and the exception. The heading may be
// missing, as it is for a syntax error or when the first lines are lost.
//
// The last one is the cause also where an exception wraps that of another process
// (torch.multiprocessing); of a chain it is the one that ended the program.
func PythonTraceback(lines []string) (summary []string, ok bool) {
	lines = cleanAll(lines)
	for i := len(lines) - 1; i > 0; i-- {
		if !isException(lines[i]) {
			continue
		}
		if frames := framesBefore(lines[:i]); len(frames) > 0 {
			return append(telling(frames), exceptionText(lines[i:])...), true
		}
	}
	return nil, false
}

// isException reports whether a line has the form of a traceback's last: the dotted
// name of a class, then nothing or a colon and a text.
func isException(line string) bool {
	name, _, _ := strings.Cut(line, ":")
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x80 && r != '.' && r != '_' && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	})
}

// exceptionText is the exception's line, and the next that says something where the
// first has no text.
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

// frame is a place in a traceback.
type frame struct {
	place  string // `  File "x.py", line 3, in f`
	source string // the line there, "" if it isn't known
}

// framesBefore reads the frames that end right before an exception's line, the last
// call last.
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

// telling are the lines of the frames that say where the mistake is.
func telling(frames []frame) []string {
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
