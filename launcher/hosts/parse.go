package hosts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxSlots bounds a number of slots: more is a typing mistake on any machine, and
// sums stay far from overflow.
const maxSlots = 1 << 20

// ParseList reads a list as -H takes it. From is how the user gave it, such as
// "-H node1:4,node2"; errors begin with it. All mistakes are reported, joined.
func ParseList(list, from string) ([]Host, error) {
	var (
		all      []Host
		mistakes []error
	)
	for _, entry := range splitList(list) {
		h, err := parseEntry(strings.TrimSpace(entry))
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", from, err))
			continue
		}
		h.From = from
		all = append(all, h)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return Merge(all), nil
}

// splitList cuts at commas outside brackets, which belong to addresses and
// ranges.
func splitList(list string) []string {
	var (
		entries []string
		depth   int
		start   int
	)
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				entries = append(entries, list[start:i])
				start, depth = i+1, 0
			}
		}
	}
	return append(entries, list[start:])
}

// parseEntry reads [user@]host[:slots].
func parseEntry(entry string) (Host, error) {
	if entry == "" {
		return Host{}, errors.New("a host's name is empty")
	}
	var h Host
	rest := entry
	if user, host, found := strings.Cut(entry, "@"); found {
		if !isUser(user) {
			return Host{}, fmt.Errorf("%q is no user's name", user)
		}
		h.User, rest = user, host
	}
	name, slots, err := cutSlots(rest)
	if err != nil {
		return Host{}, fmt.Errorf("%q: %w", entry, err)
	}
	if err := checkName(name); err != nil {
		return Host{}, err
	}
	h.Name, h.Slots = name, slots
	return h, nil
}

// cutSlots separates the number of slots from a name. More than one colon
// outside brackets is an IPv6 address without a number.
func cutSlots(text string) (name string, slots int, err error) {
	name, number, found := text, "", false
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.Contains(inner, ":") {
		address, after, closed := strings.Cut(inner, "]")
		if !closed {
			return "", 0, errors.New("a bracket is not closed")
		}
		if name = address; after != "" {
			if number, found = strings.CutPrefix(after, ":"); !found {
				return "", 0, errors.New("after an address in brackets comes :SLOTS or nothing")
			}
		}
	} else if strings.Count(text, ":") == 1 {
		name, number, found = strings.Cut(text, ":")
	}
	if !found {
		return name, 0, nil
	}
	slots, err = parseSlots(number)
	return name, slots, err
}

// parseSlots reads a number of slots. Open MPI's * (all cores) needs facts of
// that host and is refused.
func parseSlots(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots || text[0] == '+' {
		return 0, fmt.Errorf("the number of slots is %q, not a number from 1 to %d", text, maxSlots)
	}
	return n, nil
}

// checkName refuses what is no name: it will stand in commands and messages, so
// only letters, digits and the punctuation of names and addresses pass.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a host's name is empty")
	case strings.ContainsAny(name, "[]"):
		return fmt.Errorf("%q: not yet: host ranges; write the names out", name)
	case strings.HasPrefix(name, "+"), strings.HasPrefix(name, "^"):
		return fmt.Errorf("%q: relative and excluded hosts are not supported; write the names out", name)
	case strings.HasPrefix(name, "-"):
		return fmt.Errorf("%q is no host's name: it begins with a dash", name)
	}
	if i := strings.IndexFunc(name, notInName); i >= 0 {
		return fmt.Errorf("%q is no host's name: %q does not belong there", name, []rune(name[i:])[0])
	}
	return nil
}

func notInName(r rune) bool {
	return !isLetterOrDigit(r) && !strings.ContainsRune(".-_:%", r)
}

func isLetterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isUser reports whether text can be a login name; a leading dash would be an
// option of the program that logs in.
func isUser(text string) bool {
	if text == "" || text[0] == '-' {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool { return !isLetterOrDigit(r) && !strings.ContainsRune("._-+\\", r) }) < 0
}
