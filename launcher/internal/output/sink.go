package output

import "time"

// sink is a destination and the state of its last line, after everything queued for it.
type sink struct {
	outlet
	streams  []int // that it writes
	terminal bool
	width    int // columns of the terminal

	midline bool  // the last byte is not a newline
	open    *lane // the lane of that unfinished line; nil if it may not continue it

	// For terminals only.
	columns int       // of the open line
	bar     *lane     // the owner of the bar in the last row, also while other lines wipe it out
	taken   time.Time // when the owner of the last row took it
	pending []*lane   // lanes with held text
}

// accept queues bytes of a lane. The callers of this and all methods below hold mu.
func (s *sink) accept(l *lane, p []byte) {
	switch l.discipline {
	case passBytes:
		if s.open != nil {
			s.startLine()
		}
		s.put(p)
		s.midline = p[len(p)-1] != '\n'
	case wholeLines:
		s.writeLines(l, p)
	case screenRows:
		s.writeRows(l, p)
	}
}

// finish writes the rest of a lane at its end of file.
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
	s.startLine()
	s.put([]byte(line))
	if line == "" || line[len(line)-1] != '\n' {
		s.put(newline)
	}
	s.restoreBar()
}

var newline = []byte{'\n'}

// startLine makes the next byte the first of a line: it wipes out a bar, to be restored later, and ends any other
// line.
func (s *sink) startLine() {
	switch {
	case !s.midline:
	case s.open != nil && s.open == s.bar:
		s.wipe()
	default:
		s.put(newline)
	}
	s.midline, s.open, s.columns = false, nil, 0
}
