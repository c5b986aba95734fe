package nccl

import (
	"slices"
	"strings"

	"gorun/internal/spelling"
)

// Nearest returns those of the known names that were most likely meant, the best
// first and three at most; none where all are far. Letters' case does not count.
func Nearest(name string, known []string) []string { return newSpeller(known).nearest(name) }

// mostNear is how many names are told.
const mostNear = 3

// speller finds names that were meant, whatever many are asked for.
type speller struct {
	known []knownName
	// answers are those that were given: a file has one mistake many times.
	answers map[string][]string
}

// knownName is a name with what is compared of it.
type knownName struct {
	name, upper string
	letters     spelling.Letters
	words       []string // sorted
}

func newSpeller(names []string) *speller {
	s := &speller{known: make([]knownName, len(names)), answers: map[string][]string{}}
	for i, name := range names {
		upper := strings.ToUpper(name)
		s.known[i] = knownName{name, upper, spelling.LettersOf(upper), sortedWords(upper)}
	}
	return s
}

func sortedWords(name string) []string {
	words := strings.Split(name, "_")
	slices.Sort(words)
	return words
}

func (s *speller) nearest(name string) []string {
	name = strings.ToUpper(name)
	found, known := s.answers[name]
	if !known {
		if found = s.misspelt(name); found == nil {
			found = s.reordered(name)
		}
		if found == nil {
			found = s.begun(name)
		}
		s.answers[name] = found
	}
	return slices.Clone(found)
}

// closest are the names of the smallest distance, of limit at most; most is that up to which it
// need be told apart.
func (s *speller) closest(limit int, distance func(k knownName, most int) int) (found []string) {
	for _, k := range s.known {
		off := distance(k, limit+1)
		if off > limit {
			continue
		}
		if off < limit { // a farther one is a guess beside a nearer one
			found, limit = nil, off
		}
		if len(found) < mostNear {
			found = append(found, k.name)
		}
	}
	return found
}

// misspelt finds the names with the fewest other letters.
func (s *speller) misspelt(name string) []string {
	_, rest, _ := strings.Cut(name, "_") // NCCL_ says little
	letters := spelling.LettersOf(name)
	return s.closest(min(max(len(rest), len(name)-len("NCCL_"))/4, mostNear)+1, func(k knownName, most int) int {
		if letters.AtLeast(k.letters) >= most {
			return most
		}
		return max(spelling.Distance(name, k.upper, most), 1)
	})
}

// begun finds names whose first words are these, or nearly: NCCL_SOKET.
func (s *speller) begun(name string) []string {
	words := strings.Count(name, "_") + 1
	if words < 2 {
		return nil
	}
	return s.closest(1, func(k knownName, most int) int {
		first := firstWords(k.upper, words)
		if first == "" {
			return most
		}
		return spelling.Distance(name, first, most)
	})
}

// firstWords are the first n words of a name that has more, else "".
func firstWords(name string, n int) string {
	for i := range len(name) {
		if name[i] == '_' {
			if n--; n == 0 {
				return name[:i]
			}
		}
	}
	return ""
}

// reordered finds names of the same words in another order, or with one word more or
// less: NCCL_IFNAME_SOCKET, NCCL_MAX_CHANNELS_P2P.
func (s *speller) reordered(name string) []string {
	words := sortedWords(name)
	return s.closest(1, func(k knownName, most int) int { return missing(words, k.words, most) })
}

// missing counts words that only one of two sorted lists has, most where they are more; a
// list of two words or fewer says too little.
func missing(a, b []string, most int) int {
	if min(len(a), len(b)) < 3 || len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	n := 0
	for len(a) > 0 && len(b) > 0 && n < most {
		switch strings.Compare(a[0], b[0]) {
		case -1:
			a, n = a[1:], n+1
		case 1:
			b, n = b[1:], n+1
		default:
			a, b = a[1:], b[1:]
		}
	}
	return min(n+len(a)+len(b), most)
}
