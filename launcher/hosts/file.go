package hosts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// File is the content of a host file.
type File struct {
	Hosts []Host
	// Dialect names whose syntax the file has, for the user: "Open MPI", "MPICH", "Open MPI or DeepSpeed" (which
	// look the same), "plain names", or "Open MPI and MPICH" if it has both.
	Dialect string
	// Notes name words without a meaning here, one line each.
	Notes []string
}

// ParseFile parses a host file in the syntax of Open MPI, MPICH, DeepSpeed or a mix, with ranges. name is only for
// messages. The error joins all mistakes, each with file and line.
func ParseFile(name, text string) (File, error) {
	var (
		f        File
		mistakes []error
		style    fileStyle
		number   int
	)
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := fileWords(line)
		if len(words) == 0 {
			continue
		}
		at := name + ":" + strconv.Itoa(number)
		some, unused, err := parseLine(words, maxHosts-len(f.Hosts))
		if err != nil {
			mistakes = append(mistakes, eachMistake(at, err)...)
			continue
		}
		style.add(words)
		for _, word := range unused {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %s has no meaning in a host file", at, word))
		}
		for _, h := range some {
			h.From = at
			f.Hosts = append(f.Hosts, h)
		}
	}
	f.Dialect = style.String()
	err := errors.Join(append(mistakes, checkLogins(f.Hosts))...)
	switch {
	case err != nil:
		return File{Notes: f.Notes}, err
	case len(f.Hosts) == 0:
		return f, fmt.Errorf("%s names no host", name)
	}
	f.Hosts = Merge(f.Hosts)
	return f, nil
}

// fileWords splits a line into a host and its pairs. Blanks around = are allowed, as in Open MPI.
func fileWords(line string) []string {
	keys := strings.Split(line, "=")
	for i := range keys {
		keys[i] = strings.TrimSpace(keys[i])
	}
	return strings.Fields(strings.Join(keys, "="))
}

// fileStyle collects the syntax that distinguishes dialects of host files.
type fileStyle struct {
	openMPI bool // a key of Open MPI's alone
	slots   bool // slots=, which DeepSpeed has, too
	mpich   bool // a number behind a colon, or a key of MPICH's
}

// add adds the words of a valid line.
func (s *fileStyle) add(words []string) {
	if _, numbers, _, _ := cutNumbers(words[0][strings.IndexByte(words[0], '@')+1:]); len(numbers) > 0 {
		s.mpich = true
	}
	for _, word := range words[1:] {
		switch key, _, _ := strings.Cut(word, "="); fileKey(key) {
		case "slots":
			s.slots = true
		case "ifhn", "binding", "user":
			s.mpich = true
		case "cpu", "count", "max-slots", "slots-max", "cpu-max", "count-max", "username", "port":
			s.openMPI = true
		}
	}
}

func (s fileStyle) String() string {
	switch {
	case s.mpich && (s.slots || s.openMPI):
		return "Open MPI and MPICH"
	case s.mpich:
		return "MPICH"
	case s.openMPI:
		return "Open MPI"
	case s.slots:
		return "Open MPI or DeepSpeed"
	}
	return "plain names"
}

// fileKey returns a key as set spells it.
func fileKey(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "-")) }

// parseLine parses the words of one line: a host, or a range of at most room hosts, and key=value pairs.
func parseLine(words []string, room int) (all []Host, unused []string, err error) {
	all, err = parseEntry(words[0], room)
	if err != nil {
		return nil, nil, err
	}
	h := all[0] // the others only have other names
	for _, word := range words[1:] {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return nil, nil, fmt.Errorf("%q: after a host come key=value pairs, such as slots=4", word)
		}
		known, err := h.set(fileKey(key), value)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", word, err)
		}
		if !known {
			unused = append(unused, word)
		}
	}
	if h.Slots == 0 && !h.CoreSlots {
		h.Slots = h.MaxSlots // as in Open MPI
	}
	switch {
	case h.MaxSlots > 0 && h.Slots > h.MaxSlots:
		return nil, nil, fmt.Errorf("slots=%d is more than max-slots=%d", h.Slots, h.MaxSlots)
	case h.Address != "" && len(all) > 1:
		return nil, nil, fmt.Errorf("ifhn=%s is one host's, and %s names %d: write a line for each", h.Address, words[0],
			len(all))
	}
	all, err = h.each(Names(all))
	return all, unused, err
}

// set sets one key=value pair, and reports whether it knows the key.
func (h *Host) set(key, value string) (known bool, err error) {
	switch key {
	case "slots", "cpu", "count":
		if h.Slots != 0 || h.CoreSlots {
			return true, errors.New("the number of slots is given twice")
		}
		err = h.setSlots(value)
	case "max-slots", "slots-max", "cpu-max", "count-max":
		h.MaxSlots, err = parseSlots(value)
	case "user", "username":
		if h.User = value; !isUser(value) {
			err = fmt.Errorf("%q is not a user name", value)
		}
	case "port":
		if h.Port != 0 {
			return true, errors.New("the port is given twice")
		}
		h.Port, err = parsePort(value)
	case "ifhn":
		name, isAddress := address(value)
		if h.Address = name; !isAddress && strings.Contains(name, ":") {
			err = fmt.Errorf("%q is neither an address nor a name", value)
		} else if !isAddress {
			err = checkName(name)
		}
	default:
		return false, nil
	}
	return true, err
}
