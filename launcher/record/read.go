package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Record is what a job left.
type Record struct {
	ID string
	Start
	End     *Event // nil without one
	Running bool   // the job has not ended
	file    string
}

// endSize is how many bytes the last line of a record has at most. The first one has the command line, of any length.
const endSize = 128 << 10

// List returns the records, those of the last jobs first. It skips what cannot be read.
func List(records string) (list []Record) {
	entries, _ := os.ReadDir(records)
	for _, e := range entries {
		r := Record{ID: e.Name(), file: filepath.Join(records, e.Name(), fileName)}
		if r.read() == nil && !r.Began.IsZero() {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int { return b.Began.Compare(a.Began) })
	return list
}

// read reads how the job began and ended.
func (r *Record) read() error {
	f, err := os.Open(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	first, err := bufio.NewReader(io.LimitReader(f, maxSize)).ReadBytes('\n')
	if err == nil || err == io.EOF {
		err = json.Unmarshal(first, &r.Start)
	}
	if err != nil {
		return err
	}
	r.Running = isOpen(f) // not before it has a line: Create locks it in between
	info, err := f.Stat()
	if err != nil {
		return err
	}
	ends := make([]byte, endSize)
	n, _ := f.ReadAt(ends, max(0, info.Size()-endSize))
	text := bytes.TrimSuffix(ends[:n], []byte("\n"))
	var last Event
	if json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &last) == nil && last.Event == JobEnded {
		r.End, r.Running = &last, false
	}
	return nil
}

// Lines returns the lines of a kind.
func (r *Record) Lines(kind string) (lines [][]byte) {
	text, _ := os.ReadFile(r.file) // an unreadable record has no lines
	for line := range bytes.Lines(text) {
		var head struct {
			Kind string `json:"kind"`
		}
		if bytes.Contains(line[:min(len(line), 100)], []byte(kind)) && json.Unmarshal(line, &head) == nil &&
			head.Kind == kind {
			lines = append(lines, line)
		}
	}
	return lines
}
