package launcher

import (
	"bytes"
	"unicode/utf8"

	"gorun/launcher/internal/output"
	"gorun/launcher/registry"
)

// lineSender splits streams into lines and sends them.
type lineSender struct {
	send    func(part any) error
	partial map[rankStream][]byte // unfinished lines
	tail    *int                  // requested number of last lines, or nil
	batch   []registry.Line
	err     error
}

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

// wholeRunes returns the length of a text without an incomplete last rune.
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

// putLine drops what a carriage return overwrote.
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

func (l *lineSender) flush() {
	if len(l.batch) > 0 && l.err == nil {
		l.err = l.send(registry.Logs{Lines: l.batch})
	}
	l.batch = nil
}

// writeTail sends the last lines of a stream and keeps an unfinished one.
func (l *lineSender) writeTail(at rankStream, end []byte, truncated bool) {
	lines := bytes.SplitAfter(end, []byte{'\n'})
	most := defaultTail + 1 // the last newline ends in an empty line
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
		for range min(len(first), utf8.UTFMax-1) { // the rest of a cut character
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

// endStream sends a stream's unfinished line.
func (l *lineSender) endStream(at rankStream) {
	if held := l.partial[at]; len(held) > 0 {
		l.putLine(at, held)
	}
	delete(l.partial, at)
}

// flushAll sends all unfinished lines.
func (l *lineSender) flushAll() {
	for at := range l.partial {
		l.endStream(at)
	}
	l.flush()
}
