package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher/hosts"
)

// set reports whether all variables are set and not empty.
func (r World) set(names ...string) bool {
	for _, name := range names {
		if r.get(name) == "" {
			return false
		}
	}
	return true
}

// given is the first of some variables that is set, "" for none.
func (r World) given(names ...string) string {
	for _, name := range names {
		if r.set(name) {
			return name
		}
	}
	return ""
}

// number reads a variable that is a number from least on.
func (r World) wanted(name string, least int) (int, error) {
	value := r.get(name)
	if value == "" {
		return 0, fmt.Errorf("%s is not set", name)
	}
	n, err := parseCount(value, least)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return n, nil
}

// numbers reads several variables that are numbers, each from its least value on.
func (r World) numbers(wanted ...numberWish) error {
	for _, w := range wanted {
		n, err := r.wanted(w.name, w.least)
		if err != nil {
			return err
		}
		*w.into = n
	}
	return nil
}

type numberWish struct {
	into  *int
	name  string
	least int
}

// parseCount reads a number of slots, tasks or nodes.
func parseCount(text string, least int) (int, error) {
	n, err := count(text, maxCount)
	if err != nil || n < least {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, least, maxCount)
	}
	return n, nil
}

// read is the content of the file that a variable names.
func (r World) read(variable string) (string, error) {
	name := r.get(variable)
	content, err := r.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s=%s: %w (in a container, has the file to be mounted?)", variable, name,
			withoutName(err, name))
	}
	return string(content), nil
}

// withoutName is an error of a file without the file's name, which stands before it.
func withoutName(err error, name string) error {
	if text, found := strings.CutPrefix(err.Error(), "open "+name+": "); found {
		return errors.New(text)
	}
	return err
}

// lines calls each with the words of every line that has some, and says where a
// mistake was. number counts from 1; index counts the lines with words, from 0.
func (r World) lines(variable string, each func(at string, index int, words []string) error) error {
	text, err := r.read(variable)
	if err != nil {
		return err
	}
	number, index := 0, 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := r.get(variable) + ":" + strconv.Itoa(number)
		if err := each(at, index, words); err != nil {
			return fmt.Errorf("%s: %s: %w", variable, at, err)
		}
		index++
	}
	if index == 0 {
		return fmt.Errorf("%s=%s: the file names no host", variable, r.get(variable))
	}
	return nil
}

// oneALine reads a file with a host's name for each of its slots. lines has the index
// of the first line of each host.
func (r World) oneALine(variable string) (all []hosts.Host, lines map[string]int, err error) {
	lines = make(map[string]int)
	err = r.lines(variable, func(at string, index int, words []string) error {
		if len(words) != 1 {
			return fmt.Errorf("%q is not one host's name", strings.Join(words, " "))
		}
		if err := checkHost(words[0]); err != nil {
			return err
		}
		if _, known := lines[words[0]]; !known {
			lines[words[0]] = index
		}
		all = append(all, hosts.Host{Name: words[0], Slots: 1, From: at})
		return nil
	})
	return hosts.Merge(all), lines, err
}

// names reads a variable with a host's name for each of its slots, separated by blanks.
func (r World) names(variable string) ([]hosts.Host, error) {
	var all []hosts.Host
	for _, name := range strings.Fields(r.get(variable)) {
		if err := checkHost(name); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		all = append(all, hosts.Host{Name: name, Slots: 1, From: variable})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no host", variable)
	}
	return hosts.Merge(all), nil
}

// checkHost refuses what is no host's name or address: it becomes a word of a command.
func checkHost(name string) error {
	if name == "" {
		return errors.New("an empty text is no host's name")
	}
	for i, c := range name {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune(".-_:", c)) {
			return fmt.Errorf("%q is no host's name", name)
		}
	}
	return nil
}

// from is a variable as the user would see it.
func (r World) from(name string) string { return name + "=" + r.get(name) }

// alone reports whether the only host is this one.
func (r World) alone(all []hosts.Host) bool {
	return len(all) == 1 && r.IsThisHost(all[0].Name)
}

// command finds the command by which agents come to hosts, and notes where it is
// missing. "": there is none, or none is wanted since the only host is this one.
func (r World) command(f *Found, names ...string) (path string) {
	if r.alone(f.Hosts) {
		f.Hosts[0].Here = true
		return ""
	}
	for _, name := range names {
		if path, err := r.LookPath(name); err == nil {
			return path
		}
	}
	f.Notes = append(f.Notes, names[len(names)-1]+" is not in PATH: hosts are reached by SSH")
	return ""
}

// open takes the slots back where the engine's number does not count ranks.
func open(all []hosts.Host) []hosts.Host {
	for i := range all {
		all[i].Slots = 0
	}
	return all
}

// once reports whether each host has one slot.
func once(all []hosts.Host) bool {
	for _, h := range all {
		if h.Slots != 1 {
			return false
		}
	}
	return true
}

// check looks whether the numbers of the task go together.
func (f *Found) check() error {
	t := f.Task
	switch {
	case t.Rank >= t.NumTasks:
		return fmt.Errorf("%s: task %d of %d: the last one is %d", f.Why, t.Rank, t.NumTasks, t.NumTasks-1)
	case t.LocalRank >= t.LocalTasks:
		return fmt.Errorf("%s: task %d has the number %d on its node, where %d tasks are", f.Why, t.Rank, t.LocalRank,
			t.LocalTasks)
	case t.Node >= t.NumNodes:
		return fmt.Errorf("%s: task %d is on node %d of %d nodes: the last one is %d", f.Why, t.Rank, t.Node, t.NumNodes,
			t.NumNodes-1)
	case t.NumNodes > t.NumTasks:
		return fmt.Errorf("%s: %d tasks are on %d nodes", f.Why, t.NumTasks, t.NumNodes)
	}
	return nil
}
