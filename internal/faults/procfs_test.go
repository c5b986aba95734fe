package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is what /proc tells about one.
type process struct {
	pid, parent int
	name        string
	state       byte
	born        string // clock ticks since boot; with the pid it names the process for good
}

// read describes a process; it is not ok when there is none or only its zombie.
func read(pid int) (p process, ok bool) { return parse(fmt.Sprintf("/proc/%d/stat", pid)) }

// parse reads a stat file of a process, or of one of its threads.
func parse(path string) (p process, ok bool) {
	text, err := os.ReadFile(path)
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return process{}, false
	}
	words := strings.Fields(string(text[end+1:]))
	if len(words) < 20 || words[0] == "Z" || words[0] == "X" {
		return process{}, false
	}
	parent, err := strconv.Atoi(words[1])
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	return process{pid, parent, string(text[open+1 : end]), words[0][0], words[19]}, err == nil
}

// commandLine tells which process it is, for a reader.
func (p process) String() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	words := string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '}))
	return fmt.Sprintf("%d (%s, state %c, child of %d) %s", p.pid, p.name, p.state, p.parent, words)
}

// lives reports whether the very same process is still there.
func (p process) lives() bool {
	now, ok := read(p.pid)
	return ok && now.born == p.born
}

// all lists the processes that there are.
func all() []process {
	var found []process
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
			if p, ok := read(pid); ok {
				found = append(found, p)
			}
		}
	}
	return found
}

// marked lists the processes whose environment holds an entry.
func marked(entry string) []process {
	return slices.DeleteFunc(all(), func(p process) bool {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		return err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), entry)
	})
}

// children lists those of a process.
func children(parent int) []process {
	return slices.DeleteFunc(all(), func(p process) bool { return p.parent != parent })
}
