package pmi

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"gorun/rendezvous/world"
)

// space is a world as this node's server has it: its key-value space, and who waits for
// whom. The server's mutex protects it.
type space struct {
	w    *world.World
	node int // this one

	pairs map[string]pair
	// fresh are the keys that were put here since the last barrier of all.
	fresh []string
	used  map[int]*usage
	// pooled is how many bytes of the fresh pairs are beyond their ranks' own shares.
	pooled int

	// barriers are those of groups by name, and whole, the one of all ranks, and ring, the one within PMI-2's ring.
	barriers    map[string]*barrier
	whole, ring *barrier
	// sessions are the connections of ranks, ended those whose process is gone, generations how
	// often ranks have finalized.
	sessions    map[int]*session
	ended       map[int]bool
	generations map[int]int

	attributes attributes
	mapping    string // PMI_process_mapping once somebody asked
}

// pair is what a key stands for.
type pair struct {
	value string
	// by is the rank that put it here, or nobody.
	by    int
	fresh bool
}

// nobody put a pair that came from another node, or with the world.
const nobody = -1

// pairOverhead is how many bytes the lengths of a packed pair take at most.
const pairOverhead = 8

// usage is how much is kept for a rank.
type usage struct {
	keys, bytes int // of pairs
	fresh       int // bytes of those that are fresh, at most, packed
	groups      int // barriers of groups that it has named first
	attributes  int // bytes
}

// usage gives the account of a rank.
func (s *space) usage(rank int) *usage {
	u := s.used[rank]
	if u == nil {
		u = &usage{}
		s.used[rank] = u
	}
	return u
}

// share is how many bytes of fresh pairs each rank of this node has for itself. They are half
// of what a node takes to a barrier; the other half is whoever's comes first.
func (s *space) share() int { return maxFresh / 2 / max(1, len(s.whole.local)) }

// freshen changes how many bytes of fresh pairs a rank has.
func (s *space) freshen(u *usage, change int) {
	s.pooled += max(0, u.fresh+change-s.share()) - max(0, u.fresh-s.share())
	u.fresh += change
}

// takes reports whether a rank may have that many bytes more of fresh pairs.
func (s *space) takes(u *usage, more int) bool {
	return u.fresh+more <= s.share() || s.pooled+more <= maxFresh/2
}

func newSpace(w *world.World, node int) *space {
	s := &space{
		w: w, node: node, pairs: map[string]pair{}, used: map[int]*usage{}, barriers: map[string]*barrier{},
		sessions: map[int]*session{}, ended: map[int]bool{}, generations: map[int]int{},
		attributes: attributes{map[string]attribute{}, map[string][]attributeWaiter{}},
	}
	s.whole, s.ring = s.newBarrier("all", nil), s.newBarrier("ring", nil)
	for _, p := range w.Preput {
		s.pairs[p.Key] = pair{value: p.Value, by: nobody}
	}
	return s
}

// lookup finds what a key stands for, as far as this node knows.
func (s *space) lookup(key string) (string, bool) {
	if key == "PMI_process_mapping" {
		if s.mapping == "" {
			s.mapping = processMapping(s.w)
		}
		return s.mapping, s.mapping != ""
	}
	p, ok := s.pairs[key]
	return p.value, ok
}

// Why a pair is not taken.
var (
	errKeyLength   = errors.New("key_too_long")
	errValueLength = errors.New("value_too_long")
	errReserved    = errors.New("keys_that_begin_with_PMI__are_reserved")
	errTooMuch     = errors.New("too_many_keys_or_bytes_put_by_this_rank")
)

// put takes a pair from a rank of this node. Whoever asks here sees it at once, other
// nodes after the next barrier. A later value replaces an earlier one.
func (s *space) put(rank int, key, value string) error {
	switch {
	case len(key) > keyMax:
		return errKeyLength
	case len(value) > valueMax:
		return errValueLength
	case strings.HasPrefix(key, "PMI_"):
		return errReserved
	}
	return s.store(rank, key, value)
}

// store takes a pair of any name.
func (s *space) store(rank int, key, value string) error {
	old, known := s.pairs[key]
	u, size := s.usage(rank), len(key)+len(value)
	if u.keys >= maxKeys || u.bytes+size > maxBytes || !s.takes(u, size+pairOverhead) {
		return errTooMuch
	}
	if known {
		s.release(key, old)
	}
	if !known || !old.fresh {
		s.fresh = append(s.fresh, key)
	}
	u.keys++
	u.bytes += size
	s.freshen(u, size+pairOverhead)
	s.pairs[key] = pair{value: value, by: rank, fresh: true}
	return nil
}

// release takes a pair, which is replaced, off the account of who put it.
func (s *space) release(key string, old pair) {
	u := s.used[old.by]
	if u == nil || old.by == nobody {
		return
	}
	size := len(key) + len(old.value)
	u.keys--
	u.bytes -= size
	if old.fresh {
		s.freshen(u, -size-pairOverhead)
	}
}

// pack makes a blob of the pairs that were put here since the last barrier of all: each
// key and each value after its length.
func (s *space) pack() []byte {
	var blob []byte
	for _, key := range s.fresh {
		blob = appendText(appendText(blob, key), s.pairs[key].value)
	}
	return blob
}

// published marks what pack gave as known everywhere, and gives the keys.
func (s *space) published() []string {
	for _, key := range s.fresh {
		p := s.pairs[key]
		p.fresh = false
		s.pairs[key] = p
	}
	for _, u := range s.used {
		u.fresh = 0
	}
	keys := s.fresh
	s.fresh, s.pooled = nil, 0
	return keys
}

// unpublish has the next barrier bring keys again which not all nodes got.
func (s *space) unpublish(keys []string) {
	for _, key := range keys {
		if p := s.pairs[key]; !p.fresh && p.by != nobody {
			p.fresh = true
			s.pairs[key] = p
			s.fresh = append(s.fresh, key)
			s.freshen(s.usage(p.by), len(key)+len(p.value)+pairOverhead)
		}
	}
}

// merge takes what a node has packed, this one included: where two put the same key, the
// same one wins everywhere. What was put here since stays.
func (s *space) merge(blob []byte) error {
	for len(blob) > 0 {
		var key, value string
		if !cutText(&blob, &key) || !cutText(&blob, &value) {
			return errBody
		}
		old, known := s.pairs[key]
		if known && (old.fresh || old.value == value) {
			continue
		}
		if known {
			s.release(key, old)
		}
		s.pairs[key] = pair{value: value, by: nobody}
	}
	return nil
}

// errBody is what another node of the job should never say.
var errBody = errors.New("pmi: a message of another node's server that cannot be read")

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutText takes a text from the beginning of b, if there is one.
func cutText(b *[]byte, text *string) bool {
	n, size := binary.Uvarint(*b)
	if size <= 0 || n > uint64(len(*b)-size) {
		return false
	}
	rest := (*b)[size:]
	*text, *b = string(rest[:n]), rest[n:]
	return true
}

// packTexts and cutTexts carry a list of texts.
func packTexts(texts ...string) []byte {
	var b []byte
	for _, text := range texts {
		b = appendText(b, text)
	}
	return b
}

func cutTexts(b []byte, n int) ([]string, error) {
	texts := make([]string, n)
	for i := range texts {
		if !cutText(&b, &texts[i]) {
			return nil, errBody
		}
	}
	return texts, nil
}

// universe is MPI_UNIVERSE_SIZE as PMI has it: -1 is "not set".
func (s *space) universe() (size string, set bool) {
	if !s.w.UniverseSet || s.w.Universe <= 0 {
		return "-1", false
	}
	return strconv.Itoa(s.w.Universe), true
}
