package nccl

import (
	"slices"
	"strings"

	"gorun/internal/spelling"
)

// Nearest returns at most three known names that are most similar to name, the best first. It returns none if
// all differ too much. Case does not matter.
func Nearest(name string, known []string) []string { return newSpeller(known).nearest(name) }

// mostNear is the number of suggestions at most.
const mostNear = 3

// speller suggests names. It answers many queries faster than separate calls of Nearest.
type speller struct {
	known []knownName
	// answers caches results, since a file often repeats a mistake.
	answers map[string][]string
}

// knownName is a name with the parts to compare.
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

// closest returns the names with the smallest distance, up to limit. distance need not be exact above most.
func (s *speller) closest(limit int, distance func(k knownName, most int) int) (found []string) {
	for _, k := range s.known {
		off := distance(k, limit+1)
		if off > limit {
			continue
		}
		if off < limit { // a nearer name makes farther ones poor guesses
			found, limit = nil, off
		}
		if len(found) < mostNear {
			found = append(found, k.name)
		}
	}
	return found
}

// misspelt returns the names with the fewest different letters.
func (s *speller) misspelt(name string) []string {
	_, rest, _ := strings.Cut(name, "_") // NCCL_ matters little
	letters := spelling.LettersOf(name)
	return s.closest(min(max(len(rest), len(name)-len("NCCL_"))/4, mostNear)+1, func(k knownName, most int) int {
		if letters.AtLeast(k.letters) >= most {
			return most
		}
		return max(spelling.Distance(name, k.upper, most), 1)
	})
}

// begun returns names whose first words are similar to the given ones: NCCL_SOKET.
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

// firstWords returns the first n words of a name with more words, else "".
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

// reordered returns names with the same words in another order, or with one word more or less:
// NCCL_IFNAME_SOCKET, NCCL_MAX_CHANNELS_P2P.
func (s *speller) reordered(name string) []string {
	words := sortedWords(name)
	return s.closest(1, func(k knownName, most int) int { return missing(words, k.words, most) })
}

// missing counts words in only one of two sorted lists, up to most. It returns most for a list of at most two
// words, which is too short to compare.
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
