package output

import "bytes"

// lineFilter picks the lines of one stream that hold any of some texts, for a file that streams share.
type lineFilter struct {
	file  *logFile
	texts [][]byte
	tag   []byte
	line  []byte // the unfinished line
	found []byte // reused: what feed returned last
}

func newLineFilter(file *logFile, texts []string, tag string) *lineFilter {
	f := &lineFilter{file: file, tag: []byte(tag)}
	for _, text := range texts {
		f.texts = append(f.texts, []byte(text))
	}
	return f
}

// feed takes bytes of the stream and returns the lines to write, tagged; they are valid until the next call. A line
// longer than MaxLine is looked at in pieces.
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

// rest returns the final partial line as feed would have, ended by a newline.
func (f *lineFilter) rest() []byte {
	f.found = f.found[:0]
	if len(f.line) > 0 {
		f.take()
	}
	return f.found
}

// take judges the line and begins the next.
func (f *lineFilter) take() {
	if containsAny(f.line, f.texts) {
		f.found = append(f.found, f.tag...)
		f.found = append(f.found, f.line...)
		f.found = append(f.found, '\n')
	}
	f.line = f.line[:0]
	if cap(f.line) > keptLine {
		f.line = nil
	}
}

// containsAny tells whether the line holds any of the texts.
func containsAny(line []byte, texts [][]byte) bool {
	for _, text := range texts {
		if bytes.Contains(line, text) {
			return true
		}
	}
	return false
}
