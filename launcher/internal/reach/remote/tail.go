package remote

import (
	"strings"
	"sync"
)

// tailSize limits a Tail, in bytes.
const tailSize = 8 << 10

// Tail keeps the last 8 KiB that are written to it. The zero Tail is ready, and safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tailSize):]...)
	if len(t.text) > 2*tailSize {
		t.text = append(t.text[:0], t.text[len(t.text)-tailSize:]...)
	}
	return len(b), nil
}

// String returns the end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-tailSize):])
}

// shownLines limits the lines of a command's output in a message.
const shownLines = 3

// LastLines joins the last lines of a text that are not blank.
func LastLines(text string) string {
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-shownLines):], "; ")
}
