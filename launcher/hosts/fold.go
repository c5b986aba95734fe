package hosts

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Fold writes names in as few words as Slurm does, for messages: n1, n2, n3, n05,
// n06 and x1 are "n[1-3,05-06],x1". Names that differ in one number stand together
// where the first of them stood, in the order of their numbers; what comes twice
// stands once. [Expand] reads it back.
func Fold(names []string) string {
	var (
		order []string
		sets  = map[string]*foldSet{}
		seen  = make(map[string]bool, len(names))
	)
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		before, number, after := cutNumber(name)
		key := before + "\x00" + after
		if number == "" {
			key = name
		}
		if sets[key] == nil {
			order = append(order, key)
			sets[key] = &foldSet{before: before, after: after}
		}
		sets[key].add(number)
	}
	words := make([]string, len(order))
	for i, key := range order {
		words[i] = sets[key].String()
	}
	return strings.Join(words, ",")
}

// Names are the hosts' names, for Fold.
func Names(all []Host) []string {
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = h.Name
	}
	return names
}

// cutNumber finds the number by which a name is told from its like: the last one
// of its first label, or of an IPv4 address. It is "" where there is none, and for
// an IPv6 address.
func cutNumber(name string) (before, number, after string) {
	end := len(name)
	if ip, err := netip.ParseAddr(name); err == nil && !ip.Is4() {
		return name, "", ""
	} else if dot := strings.IndexByte(name, '.'); err != nil && dot >= 0 {
		end = dot
	}
	for end > 0 && !isDigit(name[end-1]) {
		end--
	}
	start := end
	for start > 0 && isDigit(name[start-1]) {
		start--
	}
	if end-start > maxDigits {
		return name, "", ""
	}
	return name[:start], name[start:end], name[end:]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// foldSet is names that differ in one number.
type foldSet struct {
	before, after string
	numbers       []foldNumber
}

type foldNumber struct {
	text  string
	value int64
}

func (s *foldSet) add(number string) {
	value, _ := strconv.ParseInt(number, 10, 64) // "" is 0, and the only one of its set
	s.numbers = append(s.numbers, foldNumber{number, value})
}

// foldRange is a range of numbers, padded as wide as the first one.
type foldRange struct {
	first, last string
}

func (r foldRange) String() string {
	if r.first == r.last {
		return r.first
	}
	return r.first + "-" + r.last
}

// String is the set as one word.
func (s *foldSet) String() string {
	if len(s.numbers) == 1 {
		return s.before + s.numbers[0].text + s.after
	}
	ranges := s.ranges()
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = r.String()
	}
	return s.before + "[" + strings.Join(words, ",") + "]" + s.after
}

// ranges joins numbers that follow each other with the same padding.
func (s *foldSet) ranges() []foldRange {
	slices.SortFunc(s.numbers, func(a, b foldNumber) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(len(a.text), len(b.text)))
	})
	var ranges []foldRange
	next := map[string]int{} // the range that a number would continue
	for _, n := range s.numbers {
		at, found := next[n.text]
		if found {
			delete(next, n.text)
			ranges[at].last = n.text
		} else {
			at = len(ranges)
			ranges = append(ranges, foldRange{n.text, n.text})
		}
		next[pad(n.value+1, len(ranges[at].first))] = at
	}
	return ranges
}
