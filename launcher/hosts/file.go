package hosts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseFile reads a host file: the union of what Open MPI and Hydra take. Name
// is only for messages. Notes tell what of the file has no meaning here, one line
// each; all mistakes are reported, joined, each with file and line.
func ParseFile(name, text string) (all []Host, notes []string, err error) {
	var mistakes []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := name + ":" + strconv.Itoa(number)
		h, unused, err := parseLine(words)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", at, err))
			continue
		}
		for _, word := range unused {
			notes = append(notes, fmt.Sprintf("%s: %s has no meaning here", at, word))
		}
		h.From = at
		all = append(all, h)
	}
	switch {
	case len(mistakes) > 0:
		return nil, notes, errors.Join(mistakes...)
	case len(all) == 0:
		return nil, notes, fmt.Errorf("%s names no host", name)
	}
	return Merge(all), notes, nil
}

// parseLine reads the words of one line: a host and key=value pairs.
func parseLine(words []string) (h Host, unused []string, err error) {
	h, err = parseEntry(words[0])
	if err != nil {
		return Host{}, nil, err
	}
	for _, word := range words[1:] {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return Host{}, nil, fmt.Errorf("%q: after a host come key=value pairs, such as slots=4", word)
		}
		known, err := h.set(strings.ToLower(strings.ReplaceAll(key, "_", "-")), value)
		if err != nil {
			return Host{}, nil, fmt.Errorf("%s: %w", word, err)
		}
		if !known {
			unused = append(unused, word)
		}
	}
	if h.MaxSlots > 0 && h.Slots > h.MaxSlots {
		return Host{}, nil, fmt.Errorf("slots=%d is more than max-slots=%d", h.Slots, h.MaxSlots)
	}
	return h, unused, nil
}

// set takes one key=value pair; it reports whether it knows the key.
func (h *Host) set(key, value string) (known bool, err error) {
	switch key {
	case "slots", "cpu", "count":
		if h.Slots != 0 {
			return true, errors.New("the number of slots is given twice")
		}
		h.Slots, err = parseSlots(value)
	case "max-slots", "slots-max", "cpu-max", "count-max":
		h.MaxSlots, err = parseSlots(value)
	case "user", "username":
		if h.User = value; !isUser(value) {
			err = fmt.Errorf("%q is no user's name", value)
		}
	case "port":
		h.Port, err = strconv.Atoi(value)
		if err != nil || h.Port < 1 || h.Port > 65535 {
			err = fmt.Errorf("%q is no port", value)
		}
	default:
		return false, nil
	}
	return true, err
}
