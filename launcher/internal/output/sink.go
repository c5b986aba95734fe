package output

import "time"

// sink is a destination with its layout: what stands at the end of what has been queued for it.
type sink struct {
	outlet
	streams  []int // that it takes
	terminal bool
	width    int // columns of the terminal

	midline bool  // the last byte is no newline
	open    *lane // whose unfinished line that is; nil when its lane may not continue it

	// For terminals only.
	columns int       // that the open line takes; its row, when it is a bar
	bar     *lane     // whose bar the last row belongs to, also while other lines push it away
	taken   time.Time // when the last row got its present owner
	pending []*lane   // lanes with held text
}

// accept lays out bytes of a lane. mu is held, as by all that follow.
func (s *sink) accept(l *lane, p []byte) {
	switch l.discipline {
	case passBytes:
		if s.open != nil {
			s.leave()
		}
		s.put(p)
		s.midline = p[len(p)-1] != '\n'
	case wholeLines:
		s.writeLines(l, p)
	case screenRows:
		s.writeRows(l, p)
	}
}

// finish writes what a lane has left at its end of file.
func (s *sink) finish(l *lane) {
	switch l.discipline {
	case wholeLines:
		s.finishLine(l)
	case screenRows:
		s.finishRow(l)
	}
	if s.open == l {
		s.open = nil
	}
	l.clear()
	l.line = nil
}

// notice writes a line of gorun's own.
func (s *sink) notice(line string) {
	s.leave()
	s.put([]byte(line))
	if line == "" || line[len(line)-1] != '\n' {
		s.put(newline)
	}
	s.restoreBar()
}

var newline = []byte{'\n'}

// leave makes the next byte the first of a line: a bar is wiped out, to be restored later; any other open line ends.
func (s *sink) leave() {
	switch {
	case !s.midline:
	case s.open != nil && s.open == s.bar:
		s.wipe()
	default:
		s.put(newline)
	}
	s.midline, s.open, s.columns = false, nil, 0
}
