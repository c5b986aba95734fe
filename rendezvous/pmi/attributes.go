package pmi

import (
	"errors"
	"strconv"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// attributes are PMI-2's attributes of a host: ranks there put and get them. Where several
// agents serve one host, the one with the lowest number has them, and others ask it.
// Those of ranks that begin MPI again are others.
type attributes struct {
	values  map[string]attribute
	waiting map[string][]attributeWaiter
}

// attribute is a value and the rank that put it, on whose account it is.
type attribute struct {
	value string
	by    int
}

// attributeWaiter is a rank that waits for a value, and what tells it.
type attributeWaiter struct {
	rank int
	done func(how, value string)
}

func newAttributes() attributes {
	return attributes{values: map[string]attribute{}, waiting: map[string][]attributeWaiter{}}
}

// attributesService is by which servers ask each other: a list of texts: what to do, the
// world, the rank that asks, the key, the value.
const attributesService = "pmi/attributes"

// What may be done with an attribute, and how the answers begin.
const (
	attributePut  = "put"
	attributeGet  = "get"
	attributeWait = "wait"

	found   = "found"
	missing = "missing"
	failed  = "failed"
)

// attributesNode is the node that has those of a rank's host.
func (s *space) attributesNode(rank int) int {
	node := s.w.Ranks[rank].Node
	for i := range s.w.Ranks {
		if s.w.Ranks[i].Host == s.w.Ranks[rank].Host {
			node = min(node, s.w.Ranks[i].Node)
		}
	}
	return node
}

// attribute does something with an attribute of a rank's host. done hears found, with the
// value, missing, or failed, with the reason; at once or later, but not where the job ends.
func (s *Server) attribute(sp *space, rank int, what, key, value string, done func(how, value string)) {
	// A host has one node of lowest number, but that may have ranks of other hosts, too.
	s.mu.Lock()
	generation := sp.generations[rank]
	s.mu.Unlock()
	key = strconv.Itoa(sp.w.Ranks[rank].Host) + "/" + strconv.Itoa(generation) + "/" + key
	node := sp.attributesNode(rank)
	if node == s.cfg.Node {
		s.attributeHere(sp, rank, what, key, value, done)
		return
	}
	question := packTexts(what, sp.w.Name, strconv.Itoa(rank), key, value)
	s.cfg.Plane.Ask(node, attributesService, question, func(answer []byte, err error) {
		var texts []string
		if err == nil {
			texts, err = cutTexts(answer, 2)
		}
		switch {
		case err == nil:
			done(texts[0], texts[1])
		case !errors.Is(err, exchange.ErrClosed):
			done(failed, err.Error())
		}
	})
}

// attributeHere does it where this node has them.
func (s *Server) attributeHere(sp *space, rank int, what, key, value string, done func(how, value string)) {
	s.mu.Lock()
	a := &sp.attributes
	old, known := a.values[key]
	switch {
	case what == attributePut:
		how, waiting := failed, []attributeWaiter(nil)
		if sp.putAttribute(rank, key, value) {
			how, waiting = found, a.waiting[key]
			delete(a.waiting, key)
		}
		s.mu.Unlock()
		if how == failed {
			value = errTooMuch.Error()
		}
		done(how, value)
		for _, w := range waiting {
			w.done(found, value)
		}
	case !known && what == attributeWait:
		a.waiting[key] = append(a.waiting[key], attributeWaiter{rank, done})
		in := sp.attributeStuck(rank)
		s.mu.Unlock()
		s.sayStuck(in)
	case !known:
		s.mu.Unlock()
		done(missing, "")
	default:
		s.mu.Unlock()
		done(found, old.value)
	}
}

// putAttribute puts one on a rank's account, if there is room.
func (s *space) putAttribute(rank int, key, value string) bool {
	u, size := s.usage(rank), len(key)+len(value)
	old, known := s.attributes.values[key]
	free := 0
	if known && old.by == rank {
		free = len(key) + len(old.value)
	}
	if u.attributes-free+size > maxAttrs {
		return false
	}
	if known {
		s.usage(old.by).attributes -= len(key) + len(old.value)
	}
	u.attributes += size
	s.attributes.values[key] = attribute{value, rank}
	return true
}

// attributeStuck is that a rank waits for an attribute which nobody can put any more: all
// others of its host have ended. What other nodes' ranks do is not known here.
func (s *space) attributeStuck(rank int) *stuck {
	missing := nobody
	if s.ended[rank] {
		return nil
	}
	for r := range s.w.Ranks {
		switch {
		case r == rank || s.w.Ranks[r].Host != s.w.Ranks[rank].Host:
		case !s.ended[r]:
			return nil
		case missing == nobody:
			missing = r
		}
	}
	if missing == nobody {
		return nil
	}
	return &stuck{[]world.Proc{{World: s.w.Name, Rank: rank}}, world.Proc{World: s.w.Name, Rank: missing}}
}

// attributesStuck are all that wait so.
func (s *space) attributesStuck() (found []*stuck) {
	seen := map[int]bool{}
	for _, list := range s.attributes.waiting {
		for _, w := range list {
			if in := s.attributeStuck(w.rank); in != nil && !seen[w.rank] {
				seen[w.rank] = true
				found = append(found, in)
			}
		}
	}
	return found
}

// serveAttributes answers other nodes.
func (s *Server) serveAttributes(_ int, body []byte, reply func([]byte, error)) {
	texts, err := cutTexts(body, 5)
	if err != nil {
		reply(nil, err)
		return
	}
	sp := s.space(texts[1])
	rank, err := strconv.Atoi(texts[2])
	if sp == nil || err != nil || rank < 0 || rank >= len(sp.w.Ranks) {
		reply(packTexts(missing, ""), nil)
		return
	}
	s.attributeHere(sp, rank, texts[0], texts[3], texts[4], func(how, value string) { reply(packTexts(how, value), nil) })
}

// pairsService is by which servers ask each other for pairs of worlds that they have no
// ranks of: a list of texts: the world, the key.
const pairsService = "pmi/pairs"

// lookup finds what a key of any world stands for. done is called at once or later.
func (s *Server) lookup(name, key string, done func(value string, ok bool)) {
	sp := s.space(name)
	if sp == nil {
		done("", false)
		return
	}
	s.mu.Lock()
	value, ok := sp.lookup(key)
	s.mu.Unlock()
	if ok || sp.served() || len(sp.nodes) == 0 {
		done(value, ok)
		return
	}
	s.askPairs(sp.nodes, packTexts(name, key), done)
}

// askPairs asks the first of a world's nodes that is there: after a barrier all know the same.
func (s *Server) askPairs(nodes []int, question []byte, done func(value string, ok bool)) {
	s.cfg.Plane.Ask(nodes[0], pairsService, question, func(answer []byte, err error) {
		if errors.Is(err, exchange.ErrNodeLost) && len(nodes) > 1 {
			s.askPairs(nodes[1:], question, done)
			return
		}
		texts, bad := cutTexts(answer, 2)
		if err != nil || bad != nil || texts[0] != found {
			done("", false)
			return
		}
		done(texts[1], true)
	})
}

// servePairs answers other nodes.
func (s *Server) servePairs(_ int, body []byte, reply func([]byte, error)) {
	texts, err := cutTexts(body, 2)
	if err != nil {
		reply(nil, err)
		return
	}
	how, value := missing, ""
	if sp := s.space(texts[0]); sp != nil {
		s.mu.Lock()
		if v, ok := sp.lookup(texts[1]); ok {
			how, value = found, v
		}
		s.mu.Unlock()
	}
	reply(packTexts(how, value), nil)
}
