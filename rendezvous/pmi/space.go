package pmi

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"gorun/rendezvous/internal/node"
	"gorun/rendezvous/world"
)

// space is a world with its key-value space and those who wait in it. The server's lock guards it.
type space struct {
	node.World

	pairs map[string]pair
	fresh []string       // keys that were put here since the last barrier of the world
	used  map[int]*usage // by rank
	// pooled counts the bytes of fresh pairs beyond their ranks' own shares.
	pooled int

	barriers    map[string]*barrier // of groups, by name, and:
	whole, ring *barrier            // of the world, and of the world in PMI-2's ring
	sessions    map[int]*session    // by rank
	ended       map[int]bool        // ranks whose process is gone
	generations map[int]int         // how often a rank has finalized
	turns       map[int]*turn       // by rank

	attributes attributes
	mapping    string // PMI_process_mapping, made on demand
}

// pair is the value of a key.
type pair struct {
	value string
	owner int // the rank that put it here, or noOwner
	fresh bool
}

// noOwner marks a pair that came from another node or with the world.
const noOwner = -1

// pairOverhead bounds the bytes that the two lengths of a packed pair take.
const pairOverhead = 8

// usage is what is kept for a rank.
type usage struct {
	keys, bytes int // of its pairs
	fresh       int // bytes of its fresh pairs, packed
	groups      int // barriers of groups that it named first
	attributes  int // bytes of its attributes
}

func newSpace(w *world.World, number int) *space {
	s := &space{
		World: node.NewWorld(w, number), pairs: map[string]pair{}, used: map[int]*usage{}, barriers: map[string]*barrier{},
		sessions: map[int]*session{}, ended: map[int]bool{}, generations: map[int]int{},
		turns:      map[int]*turn{},
		attributes: attributes{map[string]attribute{}, map[string][]attributeWaiter{}},
	}
	s.whole, s.ring = s.newBarrier("all", nil), s.newBarrier("ring", nil)
	for _, p := range w.Preput {
		s.pairs[p.Key] = pair{value: p.Value, owner: noOwner}
	}
	return s
}

func (s *space) usage(rank int) *usage {
	u := s.used[rank]
	if u == nil {
		u = &usage{}
		s.used[rank] = u
	}
	return u
}

// share returns how many bytes of fresh pairs each rank of this node has for itself. The shares are half of what a node
// brings to a barrier; the other half is a pool.
func (s *space) share() int { return maxFresh / 2 / max(1, len(s.Local)) }

// addFresh changes the bytes of a rank's fresh pairs.
func (s *space) addFresh(u *usage, change int) {
	s.pooled += max(0, u.fresh+change-s.share()) - max(0, u.fresh-s.share())
	u.fresh += change
}

// hasRoom reports whether a rank may have n more bytes of fresh pairs.
func (s *space) hasRoom(u *usage, n int) bool {
	return u.fresh+n <= s.share() || s.pooled+n <= maxFresh/2
}

// lookup returns the value of a key, as far as this node knows.
func (s *space) lookup(key string) (string, bool) {
	if key == "PMI_process_mapping" {
		if s.mapping == "" {
			s.mapping = processMapping(s.World.World)
		}
		return s.mapping, s.mapping != ""
	}
	p, ok := s.pairs[key]
	return p.value, ok
}

// Why a pair is refused.
var (
	errKeyLength   = errors.New("key_too_long")
	errValueLength = errors.New("value_too_long")
	errReserved    = errors.New("keys_that_begin_with_PMI__are_reserved")
	errTooMuch     = errors.New("too_many_keys_or_bytes_put_by_this_rank")
)

// put stores a pair of a rank of this node. Ranks here see it at once, those of other nodes after the next barrier. A
// later value replaces an earlier one.
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

// store is put for any key.
func (s *space) store(rank int, key, value string) error {
	old, known := s.pairs[key]
	u, size := s.usage(rank), len(key)+len(value)
	if u.keys >= maxKeys || u.bytes+size > maxBytes || !s.hasRoom(u, size+pairOverhead) {
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
	s.addFresh(u, size+pairOverhead)
	s.pairs[key] = pair{value: value, owner: rank, fresh: true}
	return nil
}

// release subtracts a pair that is replaced from its owner's usage.
func (s *space) release(key string, old pair) {
	if old.owner == noOwner {
		return
	}
	u, size := s.usage(old.owner), len(key)+len(old.value)
	u.keys--
	u.bytes -= size
	if old.fresh {
		s.addFresh(u, -size-pairOverhead)
	}
}

// pack encodes the fresh pairs: each key and each value after its length.
func (s *space) pack() []byte {
	var blob []byte
	for _, key := range s.fresh {
		blob = appendText(appendText(blob, key), s.pairs[key].value)
	}
	return blob
}

// markShared marks all fresh pairs as known to all nodes, and returns their keys.
func (s *space) markShared() []string {
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

// markFresh undoes markShared after a barrier has failed.
func (s *space) markFresh(keys []string) {
	for _, key := range keys {
		if p := s.pairs[key]; !p.fresh && p.owner != noOwner {
			p.fresh = true
			s.pairs[key] = p
			s.fresh = append(s.fresh, key)
			s.addFresh(s.usage(p.owner), len(key)+len(p.value)+pairOverhead)
		}
	}
}

// merge adds the pairs that a node has packed, this one included: if two nodes put the same key, the same value wins on
// all nodes. Pairs that were put here since then stay.
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
		s.pairs[key] = pair{value: value, owner: noOwner}
	}
	return nil
}

// errBody is a message that no server of ours sends.
var errBody = errors.New("pmi: cannot read a message from another node's server")

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutText moves a string from the beginning of b to text, if there is one.
func cutText(b *[]byte, text *string) bool {
	n, size := binary.Uvarint(*b)
	if size <= 0 || n > uint64(len(*b)-size) {
		return false
	}
	rest := (*b)[size:]
	*text, *b = string(rest[:n]), rest[n:]
	return true
}

func packTexts(texts ...string) []byte {
	var b []byte
	for _, text := range texts {
		b = appendText(b, text)
	}
	return b
}

// cutTexts undoes packTexts for n strings.
func cutTexts(b []byte, n int) ([]string, error) {
	texts := make([]string, n)
	for i := range texts {
		if !cutText(&b, &texts[i]) {
			return nil, errBody
		}
	}
	return texts, nil
}

// universe returns MPI_UNIVERSE_SIZE as PMI has it: "-1" if it is not set.
func (s *space) universe() (size string, set bool) {
	if !s.UniverseSet || s.Universe <= 0 {
		return "-1", false
	}
	return strconv.Itoa(s.Universe), true
}
