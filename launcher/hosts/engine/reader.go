package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// reader parses an engine's variables and files. It keeps the first error, after which no result counts.
type reader struct {
	World
	err error
}

// fail keeps the first error. It returns nil for the caller to return.
func (r *reader) fail(format string, args ...any) *Found {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	return nil
}

// set reports whether no variable is empty.
func (w World) set(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return w.get(name) == "" })
}

// number parses a variable, and returns least if it fails.
func (r *reader) number(name string, least int) int {
	value := r.get(name)
	if value == "" {
		r.fail("%s is not set", name)
		return least
	}
	n, err := parseCount(value, least, maxCount)
	if err != nil {
		r.fail("%s=%s: %w", name, value, err)
	}
	return max(n, least)
}

// read returns the content of the file that a variable names.
func (r *reader) read(variable string) string {
	name := r.get(variable)
	content, err := r.ReadFile(name)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "open "+name+": ")
		r.fail("%s=%s: %s (in a container, has the file to be mounted?)", variable, name, text)
	}
	return string(content)
}

// lines calls each for every line with words in a file. at is FILE:LINE, index counts these lines from 0.
func (r *reader) lines(variable string, each func(at string, index int, words []string) error) {
	number, index := 0, 0
	for line := range strings.Lines(r.read(variable)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := r.get(variable) + ":" + strconv.Itoa(number)
		if err := each(at, index, words); err != nil {
			r.fail("%s: %s: %w", variable, at, err)
		}
		index++
	}
	if index == 0 {
		r.fail("%s=%s: the file names no host", variable, r.get(variable))
	}
}

// hostPerLine parses a file with a line for each slot of a host. lines has the index of each host's first line.
func (r *reader) hostPerLine(variable string) (all []hosts.Host, lines map[string]int) {
	lines = make(map[string]int)
	r.lines(variable, func(at string, index int, words []string) error {
		if len(words) != 1 {
			return fmt.Errorf("%q is not one host's name", strings.Join(words, " "))
		}
		if _, known := lines[words[0]]; !known {
			lines[words[0]] = index
		}
		all = append(all, hosts.Host{Name: words[0], Slots: 1, From: at})
		return checkHost(words[0])
	})
	return hosts.Merge(all), lines
}

// checkHost accepts names and addresses that are safe as a word of a command.
func checkHost(name string) error {
	if name == "" {
		return errors.New("an empty text is not a host name")
	}
	for i, c := range name {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune(".-_:", c)) {
			return fmt.Errorf("%q is not a host name", name)
		}
	}
	return nil
}

// from returns NAME=VALUE.
func (w World) from(name string) string { return name + "=" + w.get(name) }

// compare notes a variable that differs from the number of slots in the list of hosts; what says so of the list.
func (w World) compare(f *Found, name string, total int, what string) {
	if value := w.get(name); value != "" && value != strconv.Itoa(total) {
		f.Notes = append(f.Notes, w.from(name)+", and "+fmt.Sprintf(what, total))
	}
}

// alone reports whether the only host is this one.
func (w World) alone(all []hosts.Host) bool {
	return len(all) == 1 && w.IsThisHost(all[0].Name)
}

// command finds a command that starts agents, and notes if none exists. It returns "" then, or if the only host is
// this one.
func (w World) command(f *Found, names ...string) (path string) {
	if w.alone(f.Hosts) {
		f.Hosts[0].Here = true
		return ""
	}
	for _, name := range names {
		if path, err := w.LookPath(name); err == nil {
			return path
		}
	}
	f.missing = names[len(names)-1]
	f.Notes = append(f.Notes, f.missing+" is not in PATH: gorun reaches hosts over SSH")
	return ""
}

// perHost replaces ssh by the first of some commands that exists.
func (w World) perHost(f *Found, names []string, words ...string) {
	if path := w.command(f, names...); path != "" {
		f.start = func([]hosts.Host) Start { return Start{PerHost: append([]string{path}, words...)} }
	}
}

// withoutSlots removes numbers of slots that are not numbers of ranks.
func withoutSlots(all []hosts.Host) []hosts.Host {
	for i := range all {
		all[i].Slots = 0
	}
	return all
}

// haveOneSlot reports whether each host has one slot.
func haveOneSlot(all []hosts.Host) bool {
	return !slices.ContainsFunc(all, func(h hosts.Host) bool { return h.Slots != 1 })
}

// check checks that the task's numbers are consistent.
func (r *reader) check(f *Found) *Found {
	t := f.Task
	switch {
	case t.Rank >= t.NumTasks:
		return r.fail("%s: task %d of %d: the last one is %d", f.Why, t.Rank, t.NumTasks, t.NumTasks-1)
	case t.LocalRank >= t.LocalTasks:
		return r.fail("%s: task %d has the number %d on its node, where %d tasks are", f.Why, t.Rank, t.LocalRank,
			t.LocalTasks)
	case t.Node >= t.NumNodes:
		return r.fail("%s: task %d is on node %d of %d nodes: the last one is %d", f.Why, t.Rank, t.Node, t.NumNodes,
			t.NumNodes-1)
	case t.NumNodes > t.NumTasks:
		return r.fail("%s: %d tasks are on %d nodes", f.Why, t.NumTasks, t.NumNodes)
	}
	return f
}
