package output

import (
	"bytes"
	"slices"
)

// Bytes of a stream that are kept for the report, 4 KiB for each rank in all. Most are for stderr, which has errors.
const (
	stdoutTail = 1 << 10
	stderrTail = 3 << 10
)

// tail keeps the end of a stream without text that a carriage return overwrote: a progress bar must not push out the
// lines before it.
type tail struct {
	buf       []byte
	truncated bool // bytes before buf were dropped
	cr        bool // a carriage return came last: anything but a newline overwrites the line
}

// add appends bytes of the stream and keeps at most limit.
func (t *tail) add(p []byte, limit int) {
	if len(p) > limit {
		p = p[len(p)-limit:]
		t.buf, t.truncated = t.buf[:0], true
	}
	for {
		i := bytes.IndexByte(p, '\r')
		if i < 0 {
			t.text(p, limit)
			return
		}
		t.text(p[:i], limit)
		t.cr = true
		p = p[i+1:]
	}
}

// text appends bytes without a carriage return.
func (t *tail) text(p []byte, limit int) {
	if len(p) == 0 {
		return
	}
	if t.cr && p[0] != '\n' {
		line := bytes.LastIndexByte(t.buf, '\n') + 1
		t.truncated = t.truncated && line > 0
		t.buf = t.buf[:line]
	}
	t.cr = false
	if excess := len(t.buf) + len(p) - limit; excess > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[excess:])]
		t.truncated = true
	}
	t.buf = append(t.buf, p...)
}

// lines returns the last n lines, as Plain. A line whose beginning was dropped begins with three dots.
func (t *tail) lines(n int) []string {
	if len(t.buf) == 0 {
		return nil
	}
	raw := bytes.Split(bytes.TrimSuffix(t.buf, []byte{'\n'}), []byte{'\n'})
	lines := make([]string, len(raw))
	for i, line := range raw {
		lines[i] = Plain(line)
	}
	if t.truncated {
		lines[0] = "..." + lines[0]
	}
	return slices.Clone(lines[max(0, len(lines)-n):])
}
