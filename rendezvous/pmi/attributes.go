package pmi

import (
	"errors"
	"slices"
	"strconv"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// attributes are PMI-2's attributes of a host, which its ranks put and get. If several agents serve the host, the one
// with the lowest node number keeps them, and the others send it requests. A rank that begins MPI again has new ones.
type attributes struct {
	values  map[string]attribute
	waiting map[string][]attributeWaiter
}

type attribute struct {
	value string
	owner int // the rank that put it, whose usage counts it
}

type attributeWaiter struct {
	rank int
	done func(outcome, value string)
}

// attributesService serves attributes to other nodes. A request is a list of strings: action, world, rank, key, value.
const attributesService = "pmi/attributes"

// The actions on attributes, and their outcomes.
const (
	attributePut  = "put"
	attributeGet  = "get"
	attributeWait = "wait"

	found   = "found"
	missing = "missing"
	failed  = "failed"
)

// peers returns the other ranks of a rank's host, ascending.
func (s *space) peers(rank int) []int {
	return slices.DeleteFunc(slices.Clone(s.ByHost[s.Ranks[rank].Host]), func(peer int) bool { return peer == rank })
}

// attributesNode returns the node that keeps the attributes of a rank's host.
func (s *space) attributesNode(rank int) int {
	node := s.Ranks[rank].Node
	for _, peer := range s.ByHost[s.Ranks[rank].Host] {
		node = min(node, s.Ranks[peer].Node)
	}
	return node
}

// attribute does something with an attribute of a rank's host. done gets found with the value, missing, or failed with
// the reason, at once or later; it is not called if the job ends before.
func (s *Server) attribute(sp *space, rank int, action, key, value string, done func(outcome, value string)) {
	// The node that keeps them may have ranks of other hosts, too.
	key = strconv.Itoa(sp.Ranks[rank].Host) + "/" + strconv.Itoa(sp.generations[rank]) + "/" + key
	node := sp.attributesNode(rank)
	if node == s.cfg.Exchange.Number() {
		s.localAttribute(sp, rank, action, key, value, done)
		return
	}
	s.request(node, attributesService, func(texts []string, err error) {
		switch {
		case err == nil:
			done(texts[0], texts[1])
		case !errors.Is(err, exchange.ErrClosed):
			done(failed, err.Error())
		}
	}, action, sp.Name, strconv.Itoa(rank), key, value)
}

// localAttribute is attribute on the node that keeps it.
func (s *Server) localAttribute(sp *space, rank int, action, key, value string, done func(outcome, value string)) {
	a := &sp.attributes
	old, known := a.values[key]
	switch {
	case action == attributePut && !sp.putAttribute(rank, key, value):
		done(failed, errTooMuch.Error())
	case action == attributePut:
		waiting := a.waiting[key]
		delete(a.waiting, key)
		done(found, value)
		for _, w := range waiting {
			w.done(found, value)
		}
	case known:
		done(found, old.value)
	case action == attributeWait:
		a.waiting[key] = append(a.waiting[key], attributeWaiter{rank, done})
		s.checkAttributeWait(sp, rank)
	default:
		done(missing, "")
	}
}

// putAttribute stores an attribute if the rank's limit allows it.
func (s *space) putAttribute(rank int, key, value string) bool {
	u, size := s.usage(rank), len(key)+len(value)
	old, known := s.attributes.values[key]
	owner, freed := u, 0
	if known {
		owner, freed = s.usage(old.owner), len(key)+len(old.value)
	}
	owner.attributes -= freed
	if u.attributes+size > maxAttrs {
		owner.attributes += freed
		return false
	}
	u.attributes += size
	s.attributes.values[key] = attribute{value, rank}
	return true
}

// checkAttributeWait reports a rank that waits for an attribute after all other ranks of its host have exited. What
// ranks of other nodes do is not known here.
func (s *Server) checkAttributeWait(sp *space, rank int) {
	peers := sp.peers(rank)
	running := func(peer int) bool { return !sp.ended[peer] }
	if len(peers) > 0 && running(rank) && !slices.ContainsFunc(peers, running) {
		s.node.Stuck([]world.Proc{sp.Proc(rank)}, sp.Proc(peers[0]))
	}
}

// attributeWaiters returns the ranks that wait for attributes which this node keeps, ascending.
func (s *space) attributeWaiters() (ranks []int) {
	for _, list := range s.attributes.waiting {
		for _, w := range list {
			ranks = append(ranks, w.rank)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// serveAttributes answers other nodes, each for its own ranks only.
func (s *Server) serveAttributes(from int, texts []string, reply func(outcome, value string)) {
	sp := s.spaces[texts[1]]
	rank, err := strconv.Atoi(texts[2])
	if sp == nil || err != nil || !sp.Has(rank) || sp.Ranks[rank].Node != from {
		reply(missing, "")
		return
	}
	s.localAttribute(sp, rank, texts[0], texts[3], texts[4], reply)
}

// pairsService serves the pairs of worlds to nodes without ranks of them. A request is a list of strings: world, key.
const pairsService = "pmi/pairs"

// lookup finds the value of a key of any world. done is called at once or later.
func (s *Server) lookup(name, key string, done func(value string, ok bool)) {
	sp := s.spaces[name]
	if sp == nil {
		done("", false)
		return
	}
	value, ok := sp.lookup(key)
	if !ok && len(sp.Local) == 0 && len(sp.Nodes) > 0 {
		s.requestPair(sp.Nodes, name, key, done)
		return
	}
	done(value, ok)
}

// requestPair asks the first of a world's nodes that is not lost: after a barrier they all know the same.
func (s *Server) requestPair(nodes []int, name, key string, done func(value string, ok bool)) {
	s.request(nodes[0], pairsService, func(texts []string, err error) {
		switch {
		case errors.Is(err, exchange.ErrNodeLost) && len(nodes) > 1:
			s.requestPair(nodes[1:], name, key, done)
		case err != nil || texts[0] != found:
			done("", false)
		default:
			done(texts[1], true)
		}
	}, name, key)
}

// servePairs answers other nodes.
func (s *Server) servePairs(_ int, texts []string, reply func(outcome, value string)) {
	if sp := s.spaces[texts[0]]; sp != nil {
		if value, ok := sp.lookup(texts[1]); ok {
			reply(found, value)
			return
		}
	}
	reply(missing, "")
}
