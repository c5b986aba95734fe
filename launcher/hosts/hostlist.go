package hosts

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// NodeList writes names as a node list like Slurm, for messages: n1, n2, n3, n05, n06 and x1 are
// "n[1-3,05-06],x1". It sorts names that differ in one number, puts them where the first of them was, and drops
// repeated ones. [Expand] reads the list.
func NodeList(names []string) string {
	type alike struct {
		before, after string
		numbered      bool
	}
	var order []alike
	numbers := map[alike][]string{}
	for _, name := range names {
		before, number, after := cutNumber(name)
		set := alike{before, after, number != ""}
		if numbers[set] == nil {
			order = append(order, set)
		}
		numbers[set] = append(numbers[set], number)
	}
	words := make([]string, len(order))
	for i, set := range order {
		all := numbers[set]
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(value(a), value(b)), len(a)-len(b)) })
		all = slices.Compact(all)
		text := ranges(all)
		if len(all) > 1 {
			text = "[" + text + "]"
		}
		words[i] = set.before + text + set.after
	}
	return strings.Join(words, ",")
}

// value returns a number that cutNumber found.
func value(number string) int64 {
	n, _ := strconv.ParseInt(number, 10, 64) // "" is 0, and the only one of its set
	return n
}

// ranges joins sorted numbers into ranges with equal padding: 1-3,05-06.
func ranges(numbers []string) string {
	var first, last []string
	next := map[string]int{} // number → range that it would continue
	for _, n := range numbers {
		at, found := next[n]
		if !found {
			at = len(first)
			first, last = append(first, n), append(last, "")
		}
		delete(next, n)
		last[at] = n
		next[pad(value(n)+1, len(first[at]))] = at
	}
	for i := range first {
		if last[i] != first[i] {
			first[i] += "-" + last[i]
		}
	}
	return strings.Join(first, ",")
}

// Names returns the hosts' names.
func Names(all []Host) []string {
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = h.Name
	}
	return names
}

// cutNumber cuts a name at the number that tells it from similar ones: the last one of its first label, or of an IPv4
// address. number is "" if none exists, and for an IPv6 address.
func cutNumber(name string) (before, number, after string) {
	const digits = "0123456789"
	label := name
	if ip, err := netip.ParseAddr(name); err == nil && !ip.Is4() {
		return name, "", ""
	} else if err != nil {
		label, _, _ = strings.Cut(name, ".")
	}
	end := strings.LastIndexAny(label, digits) + 1
	start := len(strings.TrimRight(name[:end], digits))
	if end-start > maxDigits {
		return name, "", ""
	}
	return name[:start], name[start:end], name[end:]
}
