package output

import "time"

// MaxLine is how long a line may grow, in bytes, before it is passed on unfinished.
const MaxLine = 2 << 20

// keptLine is the room for an unfinished line that a lane keeps when the line has ended.
const keptLine = 16 << 10

// discipline says how a lane's bytes become lines.
type discipline uint8

const (
	passBytes  discipline = iota // as they come
	wholeLines                   // for pipes and files
	screenRows                   // for terminals
	dropBytes                    // --local-ranks-filter leaves the rank out
)

// lane is one stream of one rank. It comes into being with the stream's first byte.
type lane struct {
	discipline discipline
	tag        []byte
	stamp      *stamp // nil: the tag is always the same
	tail       tail
	last       int64 // the number of its last write
	account    int   // where in a block's credits the lane's were last put

	// line is what the unfinished line holds and its destination has not been given. On a terminal a bar keeps its text
	// here while it is shown, to be drawn again.
	line []byte

	// For terminals only.
	bar   bool      // a carriage return has begun the line anew: it is drawn in place
	cr    bool      // a carriage return came last: what follows begins the line anew, unless it is a newline
	held  bool      // line has text that is due to be shown
	since time.Time // when the first of that text came
}

// hold keeps bytes of an unfinished line.
func (l *lane) hold(p []byte) { l.line = append(l.line, p...) }

// clear forgets the line, and its memory if that was much.
func (l *lane) clear() {
	l.line = l.line[:0]
	if cap(l.line) > keptLine {
		l.line = nil
	}
	l.bar, l.cr = false, false
}
