package output

import (
	"bytes"
	"slices"
	"time"
)

// The last row of a terminal belongs to the lane that wrote last. Complete lines scroll above it. An unfinished line
// is shown in it after ShowAfter. It is either a prompt, which other lanes' text ends by a newline, or a bar, a line
// that a carriage return restarted, which other text wipes out, to be drawn again below. One of several bars is shown
// at a time; another one may take the row after barStay. Text that a carriage return overwrote is not written again,
// and a bar wider than the terminal is cut until it is complete, as a wrapped row cannot be drawn in place.

// ShowAfter is the age at which an unfinished line is shown on a terminal.
const ShowAfter = 100 * time.Millisecond

// barStay is how long an unfinished line keeps the last row before a bar of another lane may take it.
const barStay = time.Second

// writeRows queues bytes for a terminal.
func (s *sink) writeRows(l *lane, p []byte) {
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			break
		}
		l.extend(p[:end])
		s.endRow(l)
		p = p[end+1:]
	}
	if len(p) > 0 {
		l.extend(p)
		s.showOrHold(l)
	}
	s.restoreBar()
}

// extend adds bytes without a newline to the line, and drops what a carriage return overwrites.
func (l *lane) extend(p []byte) {
	text := bytes.TrimRight(p, "\r")
	if l.cr && len(text) > 0 {
		l.restart()
	}
	if cr := bytes.LastIndexByte(text, '\r'); cr >= 0 {
		l.restart()
		text = text[cr+1:]
	}
	l.hold(text)
	l.cr = l.cr || len(p) > 0 && p[len(p)-1] == '\r'
}

// restart makes the line an empty bar.
func (l *lane) restart() {
	l.line = l.line[:0]
	l.bar, l.cr = true, false
}

// endRow writes a complete line.
func (s *sink) endRow(l *lane) {
	switch {
	case s.open != l:
		s.startLine()
		s.put(l.label())
	case l.bar:
		s.wipe()
		s.put(l.label())
	}
	s.put(l.line)
	s.put(newline)
	s.midline, s.open, s.columns = false, nil, 0
	s.release(l)
	l.clear()
}

// release takes the last row from the lane.
func (s *sink) release(l *lane) {
	if s.bar == l {
		s.bar = nil
	}
	s.unhold(l)
}

// showOrHold shows an unfinished line if its lane has the last row already, else holds it back.
func (s *sink) showOrHold(l *lane) {
	if len(l.line) >= MaxLine {
		s.giveUpBar(l)
	}
	switch {
	case s.open == l, len(l.line) >= MaxLine:
		s.show(l)
	case !l.held && len(l.line) > 0:
		l.held, l.since = true, time.Now()
		s.pending = append(s.pending, l)
	}
}

// giveUpBar makes an ordinary line of a bar that is too long to draw again.
func (s *sink) giveUpBar(l *lane) {
	if s.open == l && l.bar {
		s.startLine()
	}
	l.bar, l.cr = false, false
}

// show starts or continues the lane's unfinished line in the last row.
func (s *sink) show(l *lane) {
	s.unhold(l)
	if s.open != l {
		s.startLine()
		s.taken = time.Now()
	}
	if l.bar || l.cr && s.open != l {
		l.bar = true
		s.draw(l)
		return
	}
	if s.bar == l {
		s.bar = nil
	}
	if s.open != l {
		tag := l.label()
		s.put(tag)
		s.columns = columns(tag)
	}
	s.put(l.line)
	s.columns += columns(l.line)
	l.line = l.line[:0]
	s.midline, s.open = true, l
}

// draw draws a bar in the last row, which is the lane's own or empty.
func (s *sink) draw(l *lane) {
	label := l.label()
	tag := columns(label)
	text := cut(l.line, max(s.room()-tag, 0))
	width := tag + columns(text)
	if width < s.columns {
		s.wipe()
	} else if s.midline {
		s.put(carriageReturn)
	}
	s.put(label)
	s.put(text)
	if len(text) < len(l.line) && bytes.IndexByte(text, 0x1b) >= 0 {
		s.put(resetColor) // its own may have been cut off
	}
	s.midline, s.open, s.bar, s.columns = true, l, l, width
}

var (
	carriageReturn = []byte{'\r'}
	resetColor     = []byte("\x1b[0m")
)

// restoreBar draws the bar again that other text wiped out.
func (s *sink) restoreBar() {
	if s.bar != nil && !s.midline {
		s.unhold(s.bar)
		s.draw(s.bar)
	}
}

// wipe empties the last row, with blanks for any terminal.
func (s *sink) wipe() {
	s.put(carriageReturn)
	s.put(bytes.Repeat([]byte{' '}, min(max(s.columns, 0), s.room())))
	s.put(carriageReturn)
	s.midline, s.columns = false, 0
}

// room is how many columns fit into a row before the cursor wraps.
func (s *sink) room() int {
	if s.width <= 1 {
		return 79 // of the 80 columns of a terminal of unknown width
	}
	return s.width - 1
}

// finishRow writes the final partial line of a lane.
func (s *sink) finishRow(l *lane) {
	if len(l.line) > 0 || s.open == l {
		s.endRow(l)
	}
	s.restoreBar()
}

// showDue shows held lines that are due and returns the time to the next one, < 0 for none.
func (s *sink) showDue(now time.Time) time.Duration {
	wait := time.Duration(-1)
	for i := 0; i < len(s.pending); {
		l := s.pending[i]
		left := s.dueIn(l, now)
		if left <= 0 {
			s.show(l) // takes l out of pending
			continue
		}
		if wait < 0 || left < wait {
			wait = left
		}
		i++
	}
	return wait
}

// dueIn returns the time until a held line is shown.
func (s *sink) dueIn(l *lane, now time.Time) time.Duration {
	due := l.since.Add(ShowAfter)
	if (l.bar || l.cr) && s.open != nil {
		if free := s.taken.Add(barStay); free.After(due) {
			due = free
		}
	}
	return due.Sub(now)
}

// unhold removes the lane from those with held text.
func (s *sink) unhold(l *lane) {
	if !l.held {
		return
	}
	l.held = false
	s.pending = slices.DeleteFunc(s.pending, func(other *lane) bool { return other == l })
}

// lineEntered notes that the terminal's echo has moved the cursor to a new row.
func (s *sink) lineEntered() {
	s.midline, s.open, s.columns = false, nil, 0
}
