package remote

import (
	"strings"
	"sync"
)

// TailSize is how much of a command's standard error is kept.
const TailSize = 8 << 10

// Tail keeps the end of what is written to it. The zero Tail is ready; it may be
// used on several goroutines.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-TailSize):]...)
	if len(t.text) > 2*TailSize {
		t.text = append(t.text[:0], t.text[len(t.text)-TailSize:]...)
	}
	return len(b), nil
}

// String is the end, at most TailSize bytes.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text[max(0, len(t.text)-TailSize):])
}

// toldLines is how many lines of a command's last words a message repeats.
const toldLines = 3

// LastLines are the last lines that say something, as one.
func LastLines(text string) string {
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-toldLines):], "; ")
}
