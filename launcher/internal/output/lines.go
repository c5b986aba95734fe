package output

import "bytes"

// writeLines queues complete lines for a pipe or a file, and holds back the rest.
func (s *sink) writeLines(l *lane, p []byte) {
	if s.open == l {
		p = s.continueLine(p)
	}
	if end := bytes.LastIndexByte(p, '\n') + 1; end > 0 {
		s.startLine()
		s.putLines(l, p[:end])
		p = p[end:]
	}
	if len(l.line)+len(p) >= MaxLine {
		s.openLine(l, p)
		return
	}
	l.hold(p)
}

// continueLine queues the part of p in the open line and returns the rest.
func (s *sink) continueLine(p []byte) []byte {
	end := bytes.IndexByte(p, '\n') + 1
	if end == 0 {
		s.put(p)
		return nil
	}
	s.put(p[:end])
	s.midline, s.open = false, nil
	return p[end:]
}

// putLines queues the held line and p, which ends with a newline: without a tag in one piece.
func (s *sink) putLines(l *lane, p []byte) {
	s.put(l.label())
	s.put(l.line)
	l.clear()
	if len(l.tag) == 0 {
		s.put(p)
		return
	}
	for {
		end := bytes.IndexByte(p, '\n') + 1
		s.put(p[:end])
		if p = p[end:]; len(p) == 0 {
			return
		}
		s.put(l.label())
	}
}

// openLine queues a line before its end, and leaves it open for its lane.
func (s *sink) openLine(l *lane, p []byte) {
	s.startLine()
	s.put(l.label())
	s.put(l.line)
	s.put(p)
	l.clear()
	s.midline, s.open = true, l
}

// finishLine queues the final partial line, with a newline if it has a tag.
func (s *sink) finishLine(l *lane) {
	switch {
	case len(l.line) > 0:
		s.openLine(l, nil)
	case s.open != l:
		return
	}
	if len(l.tag) > 0 {
		s.put(newline)
		s.midline = false
	}
}
