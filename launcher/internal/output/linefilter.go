package output

import (
	"bytes"
	"slices"
)

// lineFilter selects the lines of one stream that contain any of some texts, for a file that streams share.
type lineFilter struct {
	file  *logFile
	texts [][]byte
	tag   []byte
	line  []byte // the unfinished line
	found []byte // the last result of feed, reused
}

func newLineFilter(file *logFile, texts []string, tag string) *lineFilter {
	f := &lineFilter{file: file, tag: []byte(tag)}
	for _, text := range texts {
		f.texts = append(f.texts, []byte(text))
	}
	return f
}

// feed adds bytes of the stream and returns the selected lines with their tag, valid until the next call. A line
// longer than MaxLine is searched in pieces.
func (f *lineFilter) feed(p []byte) []byte {
	f.found = f.found[:0]
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			f.line = append(f.line, p...)
			if len(f.line) >= MaxLine {
				f.take()
			}
			break
		}
		f.line = append(f.line, p[:end-1]...)
		f.take()
		p = p[end:]
	}
	return f.found
}

// rest returns the final partial line, if it is selected, with a newline.
func (f *lineFilter) rest() []byte {
	f.found = f.found[:0]
	if len(f.line) > 0 {
		f.take()
	}
	return f.found
}

// take ends the line and begins the next.
func (f *lineFilter) take() {
	if slices.ContainsFunc(f.texts, func(text []byte) bool { return bytes.Contains(f.line, text) }) {
		f.found = append(f.found, f.tag...)
		f.found = append(f.found, f.line...)
		f.found = append(f.found, '\n')
	}
	f.line = f.line[:0]
	if cap(f.line) > keptLine {
		f.line = nil
	}
}
