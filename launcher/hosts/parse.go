package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxSlots bounds a number of slots. More is a typing mistake, and sums do not overflow.
const maxSlots = 1 << 20

// ParseList parses a list of -H. from is its source, such as "-H node1:4,node2", with which errors begin. The error
// joins all mistakes.
func ParseList(list, from string) ([]Host, error) {
	var (
		all      []Host
		mistakes []error
	)
	for _, entry := range splitList(list) {
		some, err := parseEntry(strings.TrimSpace(entry), maxHosts-len(all))
		if err != nil {
			mistakes = append(mistakes, eachMistake(from, err)...)
			continue
		}
		for _, h := range some {
			h.From = from
			all = append(all, h)
		}
	}
	if err := errors.Join(append(mistakes, checkLogins(all))...); err != nil {
		return nil, err
	}
	return Merge(all), nil
}

// eachMistake adds the place to each joined mistake.
func eachMistake(where string, err error) []error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for i := range all {
		all[i] = fmt.Errorf("%s: %w", where, all[i])
	}
	return all
}

// splitList splits at commas outside the brackets of addresses and ranges.
func splitList(list string) []string {
	var entries []string
	start := 0
	for _, at := range outside(list, ',') {
		entries = append(entries, list[start:at])
		start = at + 1
	}
	return append(entries, list[start:])
}

// parseEntry parses [user@]host[:slots] and [user@]host:port:slots. Ranges in the name make several hosts, at most
// room.
func parseEntry(entry string, room int) ([]Host, error) {
	if entry == "" {
		return nil, errors.New("a host's name is empty: write one comma and no blank between hosts")
	}
	var h Host
	rest := entry
	if user, host, found := strings.Cut(entry, "@"); found {
		if !isUser(user) {
			return nil, fmt.Errorf("%q is not a user name", user)
		}
		h.User, rest = user, host
	}
	name, numbers, isAddress, err := cutNumbers(rest)
	if err == nil {
		err = h.setNumbers(numbers)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", entry, err)
	}
	names := []string{name}
	if !isAddress {
		if names, err = expandName(name, room); err != nil {
			return nil, err
		}
	} else if room < 1 {
		return nil, errTooMany(entry)
	}
	return h.each(names)
}

// each returns h under each name.
func (h Host) each(names []string) ([]Host, error) {
	all := make([]Host, len(names))
	for i, name := range names {
		if err := checkName(name); err != nil {
			return nil, err
		}
		all[i] = h
		all[i].Name = name
	}
	return all, nil
}

// setNumbers sets the numbers behind a name: slots, or port and slots.
func (h *Host) setNumbers(numbers []string) (err error) {
	switch len(numbers) {
	case 0:
		return nil
	case 1:
		return h.setSlots(numbers[0])
	case 2:
		if h.Port, err = parsePort(numbers[0]); err == nil {
			err = h.setSlots(numbers[1])
		}
		return err
	}
	return errors.New(
		"a name is followed by :SLOTS or :PORT:SLOTS; put an IPv6 address in brackets before numbers")
}

// cutNumbers cuts a name from the numbers behind it. An IPv6 address needs brackets before numbers; brackets without a
// colon are ranges.
func cutNumbers(text string) (name string, numbers []string, isAddress bool, err error) {
	if name, ok := address(text); ok {
		return name, nil, true, nil
	}
	name = text
	if at := outside(text, ':'); len(at) > 0 {
		name, numbers = text[:at[0]], strings.Split(text[at[0]+1:], ":")
	}
	bracketed, isBracketed := strings.CutPrefix(name, "[")
	inside, after, closed := strings.Cut(bracketed, "]")
	if !isBracketed || !strings.Contains(inside, ":") {
		return name, numbers, false, nil
	}
	switch name, ok := address(inside); {
	case !closed:
		return "", nil, false, errors.New("missing ]")
	case !ok:
		return "", nil, false, fmt.Errorf("[%s] is neither an IPv6 address nor a range of numbers such as [01-16]", inside)
	case after != "":
		return "", nil, false, errors.New("an address in brackets is followed by :SLOTS, :PORT:SLOTS or nothing")
	default:
		return name, numbers, true, nil
	}
}

// address parses an IPv6 address, with or without brackets.
func address(text string) (name string, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inner, "]"); !found {
			return "", false
		}
	}
	ip, err := netip.ParseAddr(text)
	return text, err == nil && ip.Is6() && strings.IndexFunc(text, notInName) < 0
}

// outside returns the indices of c outside brackets.
func outside(text string, c byte) (at []int) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			depth = max(depth-1, 0)
		case c:
			if depth == 0 {
				at = append(at, i)
			}
		}
	}
	return at
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port from 1 to 65535", text)
	}
	return int(n), nil
}

// setSlots sets a number of slots, or Open MPI's * for all cores.
func (h *Host) setSlots(text string) (err error) {
	if h.CoreSlots = text == "*"; h.CoreSlots {
		return nil
	}
	h.Slots, err = parseSlots(text)
	return err
}

func parseSlots(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots || text[0] == '+' {
		return 0, fmt.Errorf("the number of slots is %q, not a number from 1 to %d", text, maxSlots)
	}
	return n, nil
}

// checkName accepts only letters, digits and the punctuation of names and addresses, because names become part of
// commands and messages.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a host's name is empty")
	case strings.HasPrefix(name, "+"), strings.HasPrefix(name, "^"):
		return fmt.Errorf(
			"%q: relative and excluded hosts are not supported: write the names out, and --exclude NAME for hosts to leave out",
			name)
	case strings.HasPrefix(name, "-"):
		return fmt.Errorf("%q is not a host name: it begins with a dash", name)
	}
	if i := strings.IndexFunc(name, notInName); i >= 0 {
		return fmt.Errorf("%q is not a host name: it contains %q", name, []rune(name[i:])[0])
	}
	return nil
}

func notInName(r rune) bool {
	return !isLetterOrDigit(r) && !strings.ContainsRune(".-_:%", r)
}

func isLetterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isUser reports whether text can be a login name. A leading dash would make it an option of ssh.
func isUser(text string) bool {
	return text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return !isLetterOrDigit(r) && !strings.ContainsRune("._-+\\", r)
	})
}
