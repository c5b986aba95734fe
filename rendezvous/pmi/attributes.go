package pmi

import (
	"errors"
	"slices"
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

// peers are the other ranks of a rank's host, ascending.
func (s *space) peers(rank int) (list []int) {
	for r := range s.w.Ranks {
		if r != rank && s.w.Ranks[r].Host == s.w.Ranks[rank].Host {
			list = append(list, r)
		}
	}
	return list
}

// attributesNode is the node that has those of a rank's host.
func (s *space) attributesNode(rank int) int {
	node := s.w.Ranks[rank].Node
	for _, peer := range s.peers(rank) {
		node = min(node, s.w.Ranks[peer].Node)
	}
	return node
}

// attribute does something with an attribute of a rank's host. done hears found, with the
// value, missing, or failed, with the reason; at once or later, but not where the job ends.
func (s *Server) attribute(sp *space, rank int, what, key, value string, done func(how, value string)) {
	// A host has one node of lowest number, but that may have ranks of other hosts, too.
	key = strconv.Itoa(sp.w.Ranks[rank].Host) + "/" + strconv.Itoa(sp.generations[rank]) + "/" + key
	node := sp.attributesNode(rank)
	if node == s.cfg.Node {
		s.attributeHere(sp, rank, what, key, value, done)
		return
	}
	s.ask(node, attributesService, func(texts []string, err error) {
		switch {
		case err == nil:
			done(texts[0], texts[1])
		case !errors.Is(err, exchange.ErrClosed):
			done(failed, err.Error())
		}
	}, what, sp.w.Name, strconv.Itoa(rank), key, value)
}

// ask has another node answer by a list of two texts. done is called with the server locked.
func (s *Server) ask(node int, service string, done func(texts []string, err error), question ...string) {
	s.cfg.Plane.Ask(node, service, packTexts(question...), func(answer []byte, err error) {
		var texts []string
		if err == nil {
			texts, err = cutTexts(answer, 2)
		}
		s.mu.Lock()
		defer s.unlock()
		done(texts, err)
	})
}

// attributeHere does it where this node has them.
func (s *Server) attributeHere(sp *space, rank int, what, key, value string, done func(how, value string)) {
	a := &sp.attributes
	old, known := a.values[key]
	switch {
	case what == attributePut && !sp.putAttribute(rank, key, value):
		done(failed, errTooMuch.Error())
	case what == attributePut:
		waiting := a.waiting[key]
		delete(a.waiting, key)
		done(found, value)
		for _, w := range waiting {
			w.done(found, value)
		}
	case known:
		done(found, old.value)
	case what == attributeWait:
		a.waiting[key] = append(a.waiting[key], attributeWaiter{rank, done})
		s.checkAttribute(sp, rank)
	default:
		done(missing, "")
	}
}

// putAttribute puts one on a rank's account, if there is room.
func (s *space) putAttribute(rank int, key, value string) bool {
	old, known := s.attributes.values[key]
	free := 0
	if known {
		free = len(key) + len(old.value)
	}
	more := len(key) + len(value)
	u := s.usage(rank)
	if known && old.by == rank {
		more -= free
	}
	if u.attributes+more > maxAttrs {
		return false
	}
	if known && old.by != rank {
		s.usage(old.by).attributes -= free
	}
	u.attributes += more
	s.attributes.values[key] = attribute{value, rank}
	return true
}

// checkAttribute tells the launcher if a rank waits for an attribute which nobody can put any more: all
// others of its host have ended. What other nodes' ranks do is not known here.
func (s *Server) checkAttribute(sp *space, rank int) {
	peers := sp.peers(rank)
	running := func(peer int) bool { return !sp.ended[peer] }
	if len(peers) > 0 && running(rank) && !slices.ContainsFunc(peers, running) {
		s.stuck([]world.Proc{sp.proc(rank)}, sp.proc(peers[0]))
	}
}

// attributeWaiters are the ranks that wait for attributes which this node has, ascending.
func (s *space) attributeWaiters() (ranks []int) {
	for _, list := range s.attributes.waiting {
		for _, w := range list {
			ranks = append(ranks, w.rank)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// serveAttributes answers other nodes.
func (s *Server) serveAttributes(texts []string, reply func(how, value string)) {
	sp := s.spaces[texts[1]]
	rank, err := strconv.Atoi(texts[2])
	if sp == nil || err != nil || rank < 0 || rank >= len(sp.w.Ranks) {
		reply(missing, "")
		return
	}
	s.attributeHere(sp, rank, texts[0], texts[3], texts[4], reply)
}

// pairsService is by which servers ask each other for pairs of worlds that they have no
// ranks of: a list of texts: the world, the key.
const pairsService = "pmi/pairs"

// lookup finds what a key of any world stands for. done is called at once or later.
func (s *Server) lookup(name, key string, done func(value string, ok bool)) {
	sp := s.spaces[name]
	if sp == nil {
		done("", false)
		return
	}
	value, ok := sp.lookup(key)
	if nodes := sp.whole.nodes; !ok && len(sp.whole.local) == 0 && len(nodes) > 0 {
		s.askPairs(nodes, name, key, done)
		return
	}
	done(value, ok)
}

// askPairs asks the first of a world's nodes that is there: after a barrier all know the same.
func (s *Server) askPairs(nodes []int, name, key string, done func(value string, ok bool)) {
	s.ask(nodes[0], pairsService, func(texts []string, err error) {
		switch {
		case errors.Is(err, exchange.ErrNodeLost) && len(nodes) > 1:
			s.askPairs(nodes[1:], name, key, done)
		case err != nil || texts[0] != found:
			done("", false)
		default:
			done(texts[1], true)
		}
	}, name, key)
}

// servePairs answers other nodes.
func (s *Server) servePairs(texts []string, reply func(how, value string)) {
	if sp := s.spaces[texts[0]]; sp != nil {
		if value, ok := sp.lookup(texts[1]); ok {
			reply(found, value)
			return
		}
	}
	reply(missing, "")
}
