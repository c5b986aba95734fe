package output

import "time"

// MaxLine is how many bytes of an unfinished line are held back.
const MaxLine = 2 << 20

// keptLine is the capacity for an unfinished line that a lane keeps after it.
const keptLine = 16 << 10

// discipline is how a lane's bytes become lines.
type discipline uint8

const (
	passBytes  discipline = iota // unchanged
	wholeLines                   // for pipes and files
	screenRows                   // for terminals
	dropBytes                    // --local-ranks-filter leaves the rank out
)

// lane is one stream of one rank, made with its first byte.
type lane struct {
	discipline discipline
	tag        []byte
	stamp      *stamp // nil: the tag never changes
	tail       tail
	last       int64 // the number of its last write
	creditHint int   // index of the lane's last credit in its block

	// line is the part of the unfinished line that is not written yet. On a terminal, a bar keeps its text here to be
	// drawn again.
	line []byte

	// For terminals only.
	bar   bool      // a carriage return restarted the line: it is drawn in place
	cr    bool      // a carriage return came last: anything but a newline restarts the line
	held  bool      // line has text to show
	since time.Time // the time of the first of that text
}

// hold holds back bytes of an unfinished line.
func (l *lane) hold(p []byte) { l.line = append(l.line, p...) }

// clear drops the line, and a large buffer with it.
func (l *lane) clear() {
	l.line = l.line[:0]
	if cap(l.line) > keptLine {
		l.line = nil
	}
	l.bar, l.cr = false, false
}
