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

	crashed bool   // Python's faulthandler writes its dump
	line    []byte // then the line that has no end yet
	frames  int    // lines of the dump that are still kept
}

// add appends bytes of the stream and keeps at most limit.
func (t *tail) add(p []byte, limit int) {
	if at := bytes.Index(p, []byte("Fatal Python error: ")); at >= 0 && !t.crashed {
		t.plain(p[:at], limit)
		t.crashed, p = true, p[at:]
	}
	if t.crashed {
		t.dump(p, limit)
	} else {
		t.plain(p, limit)
	}
}

// dump appends lines without those of Python's faulthandler that would push out the cause: other threads, and a list of
// all modules.
//
//	Fatal Python error: Aborted
//
//	Thread 0x00007fee795ba6c0 (most recent call first):
//	  File "/usr/lib/python3.11/threading.py", line 327 in wait
//
//	Current thread 0x00007fee7a403b80 (most recent call first):
//	  File "/home/me/train.py", line 8 in step
//
//	Extension modules: numpy.core._multiarray_umath, torch._C (total: 22)
func (t *tail) dump(p []byte, limit int) {
	for line := range bytes.Lines(p) {
		t.line = append(t.line, line[:min(len(line), max(limit-len(t.line), 0))]...)
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			return
		}
		begins := func(prefixes ...string) bool {
			return slices.ContainsFunc(prefixes, func(s string) bool { return bytes.HasPrefix(t.line, []byte(s)) })
		}
		kept := true
		switch {
		case begins("Current thread 0x", "Stack (most"):
			t.frames = keptFrames
		case begins("Thread 0x", "Current thread's", "Extension modules: ", "\n"):
			t.frames, kept = 0, false
		case begins("  "):
			kept = t.frames > 0
			t.frames--
		}
		if kept {
			t.plain(t.line, limit)
		}
		t.line = t.line[:0]
	}
}

// keptFrames is how many frames of the thread that crashed are kept.
const keptFrames = 10

func (t *tail) plain(p []byte, limit int) {
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
	raw := bytes.Split(bytes.TrimSuffix(slices.Concat(t.buf, t.line), []byte{'\n'}), []byte{'\n'})
	lines := make([]string, len(raw))
	for i, line := range raw {
		lines[i] = Plain(line)
	}
	if t.truncated {
		lines[0] = "..." + lines[0]
	}
	return slices.Clone(lines[max(0, len(lines)-n):])
}
