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

// process is a process as /proc describes it.
type process struct {
	pid, parent int
	name        string
	state       byte
	born        string // clock ticks since boot; together with the pid it identifies the process
}

// read describes a process; ok is false if it does not exist or is a zombie.
func read(pid int) (p process, ok bool) { return parse(fmt.Sprintf("/proc/%d/stat", pid)) }

// parse reads the stat file of a process or of one of its threads.
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

// String describes the process for messages.
func (p process) String() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	words := string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '}))
	return fmt.Sprintf("%d (%s, state %c, child of %d) %s", p.pid, p.name, p.state, p.parent, words)
}

// lives reports whether the same process still exists.
func (p process) lives() bool {
	now, ok := read(p.pid)
	return ok && now.born == p.born
}

// all lists the existing processes.
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

// children lists the children of a process.
func children(parent int) []process {
	return slices.DeleteFunc(all(), func(p process) bool { return p.parent != parent })
}
