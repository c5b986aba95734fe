package launcher

import (
	"bytes"
	"unicode/utf8"

	"gorun/launcher/internal/output"
	"gorun/launcher/registry"
)

// liner makes lines of what streams print, and sends them.
type lineSender struct {
	send    func(part any) error
	partial map[rankStream][]byte // unfinished lines
	tail    *int                  // how many last lines are wished
	batch   []registry.Line
	err     error
}

// add takes bytes of a stream.
func (l *lineSender) write(at rankStream, p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		held := append(l.partial[at], line...)
		p = rest
		for len(held) > maxLineBytes {
			whole := wholeRunes(held[:maxLineBytes])
			l.putLine(at, held[:whole])
			held = held[whole:]
		}
		if ended {
			l.putLine(at, held)
			held = held[:0]
		}
		l.partial[at] = held
	}
}

// wholeRunes is how many bytes of a text end with a whole character, as far as it has such.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && len(text)-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// put sends a line before long. What a carriage return overwrote was never meant to stay.
func (l *lineSender) putLine(at rankStream, line []byte) {
	line = bytes.TrimRight(line, "\r")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	l.emit(at, output.Plain(line))
}

func (l *lineSender) emit(at rankStream, text string) {
	l.batch = append(l.batch, registry.Line{Rank: at.rank, Stream: at.stream, Text: text})
	if len(l.batch) >= maxBatchLines {
		l.flush()
	}
}

// flush sends what there is.
func (l *lineSender) flush() {
	if len(l.batch) > 0 && l.err == nil {
		l.err = l.send(registry.Logs{Lines: l.batch})
	}
	l.batch = nil
}

// last sends the last lines of a stream, and keeps its unfinished one.
func (l *lineSender) writeTail(at rankStream, end []byte, truncated bool) {
	lines := bytes.SplitAfter(end, []byte{'\n'})
	most := defaultTail + 1 // behind the last line's end there is nothing
	if l.tail != nil {
		if most = *l.tail; len(lines[len(lines)-1]) == 0 {
			most++
		}
	}
	if len(lines) > most {
		lines, truncated = lines[len(lines)-most:], false
	}
	if truncated && len(lines) > 0 {
		first := lines[0]
		for range min(len(first), utf8.UTFMax-1) { // the rest of a character that was cut
			if utf8.RuneStart(first[0]) {
				break
			}
			first = first[1:]
		}
		lines[0] = append([]byte("..."), first...)
	}
	for _, line := range lines {
		l.write(at, line)
	}
}

// end sends a stream's unfinished line.
func (l *lineSender) endStream(at rankStream) {
	if held := l.partial[at]; len(held) > 0 {
		l.putLine(at, held)
	}
	delete(l.partial, at)
}

// rest sends all unfinished lines.
func (l *lineSender) flushAll() {
	for at := range l.partial {
		l.endStream(at)
	}
	l.flush()
}
