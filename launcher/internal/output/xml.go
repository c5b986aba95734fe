package output

import (
	"fmt"
	"unicode/utf8"
)

// Open MPI's --xml: a root element, and in it an element for each line, on a line of its own.
//
//	<mpirun>
//	<stdout rank="0">text&#010;</stdout>
//	</mpirun>
//
// What has a meaning in XML is written as Open MPI does. Beyond ASCII characters stand for themselves, which it writes
// byte by byte, so that readers see others; bytes that XML 1.0 cannot have are replaced.
const (
	xmlRootBegin = "<mpirun>\n"
	xmlRootEnd   = "</mpirun>\n"
	replacement  = "&#65533;"
)

func xmlBegin(rank, stream int) []byte {
	return fmt.Appendf(nil, "<%s rank=\"%d\">", streamName(stream), rank)
}

func xmlEnd(stream int) []byte { return []byte("</" + streamName(stream) + ">") }

// begin begins the root element.
func (s *sink) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = true
	s.put([]byte(xmlRootBegin))
	s.signal()
}

// endRoot ends the root element, if one has begun. mu is held.
func (s *sink) endRoot() {
	if s.root && !s.closed {
		s.leave()
		s.put([]byte(xmlRootEnd))
		s.root = false
	}
}

// element writes bytes as the content of elements, with the element's end before each newline. What follows the last
// one is an element that is not complete.
func (l *lane) element(p []byte) []byte {
	p = append(l.rune, p...)
	l.rune = nil
	out := make([]byte, 0, len(p)+len(p)/4)
	for len(p) > 0 {
		if p[0] >= utf8.RuneSelf && !utf8.FullRune(p) {
			l.rune = append([]byte(nil), p...)
			break
		}
		r, size := utf8.DecodeRune(p)
		switch {
		case r == '\n':
			out = append(append(append(out, "&#010;"...), l.end...), '\n')
		case r == '&':
			out = append(out, "&amp;"...)
		case r == '<':
			out = append(out, "&lt;"...)
		case r == '>':
			out = append(out, "&gt;"...)
		case r == '\t', r == '\r':
			out = fmt.Appendf(out, "&#%03d;", r)
		case r < ' ', r == utf8.RuneError, r == 0xFFFE, r == 0xFFFF:
			out = append(out, replacement...)
		default:
			out = append(out, p[:size]...)
		}
		p = p[size:]
	}
	return out
}
