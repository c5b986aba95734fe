package signature

import (
	"cmp"
	"slices"
	"strings"
)

// index finds the few patterns that may match a line, by four bytes of each pattern's longest literal.
type index struct {
	signatures []Signature
	grams      map[uint32][]place
	maybe      [1 << 10]uint64 // Bloom filter of the grams
	vague      vagueTexts
}

// place identifies a pattern of a signature.
type place struct{ signature, pattern int32 }

func newIndex(list []Signature) *index {
	x := &index{signatures: list, grams: map[uint32][]place{}, vague: newVagueTexts(list)}
	seen := map[uint32]int{} // number of literals with a gram
	each := func(literal string, do func(gram uint32)) {
		for i := 0; i+4 <= len(literal); i++ {
			do(gramOf(literal, i))
		}
	}
	for i := range list {
		for _, p := range list[i].patterns {
			each(p.longest, func(gram uint32) { seen[gram]++ })
		}
	}
	for i := range list {
		for j, p := range list[i].patterns {
			best, least := uint32(0), len(list)*len(p.longest)*8
			each(p.longest, func(gram uint32) {
				if seen[gram] < least {
					best, least = gram, seen[gram]
				}
			})
			x.grams[best] = append(x.grams[best], place{int32(i), int32(j)})
			h := hash(best)
			x.maybe[h>>6] |= 1 << (h & 63)
		}
	}
	return x
}

// excludes reports whether a line in lower case has a text of Unless.
func (s *Signature) excludes(low string) bool {
	return slices.ContainsFunc(s.unless, func(other string) bool { return strings.Contains(low, other) })
}

func gramOf(text string, at int) uint32 {
	return uint32(text[at]) | uint32(text[at+1])<<8 | uint32(text[at+2])<<16 | uint32(text[at+3])<<24
}

// hash returns 16 bits (Knuth's multiplicative method).
func hash(gram uint32) uint32 { return gram * 2654435761 >> 16 }

// find returns the signatures that match a line, most telling first and then in the order of the database.
func (x *index) find(line string) []Match {
	if len(line) > MaxLine {
		line = line[:MaxLine]
	}
	low := lower(line)
	var candidates []place
	var seen []uint32
	for i := 0; i+4 <= len(low); i++ {
		gram := gramOf(low, i)
		if h := hash(gram); x.maybe[h>>6]&(1<<(h&63)) != 0 && !slices.Contains(seen, gram) {
			candidates, seen = append(candidates, x.grams[gram]...), append(seen, gram)
		}
	}
	if candidates == nil {
		return nil
	}
	slices.SortFunc(candidates, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.signature, b.signature), cmp.Compare(a.pattern, b.pattern))
	})
	var found []Match
	last := int32(-1)
	for _, c := range slices.Compact(candidates) {
		s := &x.signatures[c.signature]
		if c.signature == last || s.excludes(low) {
			continue
		}
		if values, ok := s.patterns[c.pattern].match(line, low); ok {
			found, last = append(found, Match{s, values}), c.signature
		}
	}
	slices.SortStableFunc(found, func(a, b Match) int { return cmp.Compare(a.Kind, b.Kind) })
	return found
}
