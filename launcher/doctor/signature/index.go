package signature

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// index finds the few patterns that may match a line, by the first four bytes of each pattern's longest literal.
type index struct {
	signatures []Signature
	grams      map[uint32][]place
	maybe      [1 << 10]uint64 // Bloom filter of the grams
	plain      [256]byte       // lower case of printable ASCII, 0 for other bytes
	vague      vagueTexts
}

// place identifies a pattern of a signature.
type place struct{ signature, pattern int32 }

func newIndex(list []Signature) *index {
	x := &index{signatures: list, grams: map[uint32][]place{}, vague: newVagueTexts(list)}
	for c := byte(' '); c <= '~'; c++ {
		x.plain[c] = lower(string(c))[0]
	}
	for i := range list {
		for j, p := range list[i].patterns {
			gram := gramOf(p.longest)
			x.grams[gram] = append(x.grams[gram], place{int32(i), int32(j)})
			h := hash(gram)
			x.maybe[h>>6] |= 1 << (h & 63)
		}
	}
	return x
}

// excludes reports whether a line in lower case has a text of Unless.
func (s *Signature) excludes(low string) bool {
	return slices.ContainsFunc(s.unless, func(other string) bool { return strings.Contains(low, other) })
}

func gramOf(text []byte) uint32 { return binary.LittleEndian.Uint32(text) }

// hash returns 16 bits (Knuth's multiplicative method).
func hash(gram uint32) uint32 { return gram * 2654435761 >> 16 }

// filter recognizes lines that no signature can match, as most lines of a log, much faster than [Plain] and find.
type filter struct {
	*index
	low  []byte // the line in lower case
	hits []place
}

// excludes reports whether a line consists of printable ASCII, has no pattern's longest literal, and does not end like
// a vague text.
func (f *filter) excludes(line []byte) bool {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > MaxLine {
		return false
	}
	f.low = f.low[:0]
	for _, c := range line {
		if c = f.plain[c]; c == 0 {
			return false
		}
		f.low = append(f.low, c)
	}
	f.hits = f.candidates(f.low, f.hits[:0])
	for _, hit := range f.hits {
		if bytes.Contains(f.low, f.signatures[hit.signature].patterns[hit.pattern].longest) {
			return false
		}
	}
	return !f.vague.last[string(lastWord(bytes.TrimRight(f.low, " .!")))]
}

// candidates adds the patterns of which a line in lower case has the four bytes.
func (x *index) candidates(low []byte, to []place) []place {
	var gram uint32
	for _, c := range low {
		gram = gram>>8 | uint32(c)<<24
		if h := hash(gram); x.maybe[h>>6]&(1<<(h&63)) != 0 {
			to = append(to, x.grams[gram]...)
		}
	}
	return to
}

// find returns the signatures that match a line, most telling first and then in the order of the database.
func (x *index) find(line string) []Match {
	if len(line) > MaxLine {
		line = line[:MaxLine]
	}
	low := lower(line)
	candidates := x.candidates([]byte(low), nil)
	slices.SortFunc(candidates, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.signature, b.signature), cmp.Compare(a.pattern, b.pattern))
	})
	var found []Match
	last := int32(-1)
	for _, c := range slices.Compact(candidates) {
		s := &x.signatures[c.signature]
		if c.signature == last || !bytes.Contains([]byte(low), s.patterns[c.pattern].longest) || s.excludes(low) {
			continue
		}
		if values, ok := s.patterns[c.pattern].match(line, low); ok {
			found, last = append(found, Match{s, values}), c.signature
		}
	}
	slices.SortStableFunc(found, func(a, b Match) int { return cmp.Compare(a.Kind, b.Kind) })
	return found
}
