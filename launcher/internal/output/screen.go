package output

import (
	"bytes"
	"time"
)

// The last row of a terminal belongs to whoever wrote last. Complete lines scroll above it. An unfinished line is shown
// in it after ShowAfter. It is one of two things: a prompt, which another lane's text ends by a newline, or a bar, a
// line that a carriage return began anew, which other text wipes out, to be drawn again below. Of several bars one is
// shown at a time; another one may take the row when the present one has had it for barStay. What a carriage return
// overwrote is not written again, and a bar that is wider than the terminal is cut until it is complete, since a
// wrapped row cannot be drawn in place.

// ShowAfter is the age at which an unfinished line is shown on a terminal.
const ShowAfter = 100 * time.Millisecond

// barStay is how long an unfinished line keeps the last row at least, against bars of other lanes.
const barStay = time.Second

// writeRows lays out bytes for a terminal.
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

// extend adds bytes without a newline to the line, of which only what follows the last carriage return remains.
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

// restart begins the line anew, as a bar.
func (l *lane) restart() {
	l.line = l.line[:0]
	l.bar, l.cr = true, false
}

// endRow writes a line whose newline has come.
func (s *sink) endRow(l *lane) {
	switch {
	case s.open != l:
		s.leave()
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

// release ends what the lane has to do with the last row.
func (s *sink) release(l *lane) {
	if s.bar == l {
		s.bar = nil
	}
	s.unhold(l)
}

// showOrHold deals with new text of an unfinished line: where the lane has the last row already it is shown at once.
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

// giveUpBar makes a line that has grown too long to be kept for drawing an ordinary one.
func (s *sink) giveUpBar(l *lane) {
	if s.open == l && l.bar {
		s.leave()
	}
	l.bar, l.cr = false, false
}

// show puts the lane's unfinished line into the last row, or goes on with it there.
func (s *sink) show(l *lane) {
	s.unhold(l)
	if s.open != l {
		s.leave()
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

// draw puts a bar into the last row, which is the lane's own or empty.
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

// restoreBar draws the bar again that other text pushed away.
func (s *sink) restoreBar() {
	if s.bar != nil && !s.midline {
		s.unhold(s.bar)
		s.draw(s.bar)
	}
}

// wipe empties the last row, with blanks, which every terminal understands.
func (s *sink) wipe() {
	s.put(carriageReturn)
	s.put(bytes.Repeat([]byte{' '}, min(max(s.columns, 0), s.room())))
	s.put(carriageReturn)
	s.midline, s.columns = false, 0
}

// room is how many columns a row may have without the cursor wrapping.
func (s *sink) room() int {
	if s.width <= 1 {
		return 79 // of the 80 columns that a terminal has that does not say
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

// showDue shows held lines that are due and returns when to come again, < 0 for never.
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

// dueIn returns how long a held line is still to be held.
func (s *sink) dueIn(l *lane, now time.Time) time.Duration {
	due := l.since.Add(ShowAfter)
	if (l.bar || l.cr) && s.open != nil {
		if free := s.taken.Add(barStay); free.After(due) {
			due = free
		}
	}
	return due.Sub(now)
}

// unhold takes the lane out of those with held text.
func (s *sink) unhold(l *lane) {
	if !l.held {
		return
	}
	l.held = false
	for i, other := range s.pending {
		if other == l {
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			return
		}
	}
}

// enter tells that the user has ended a line at the keyboard: the terminal's echo has moved the cursor to a new row.
func (s *sink) enter() {
	s.midline, s.open, s.columns = false, nil, 0
}
