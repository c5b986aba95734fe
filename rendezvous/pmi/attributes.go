package pmi

import "strconv"

// attributes are PMI-2's attributes of a host: ranks there put and get them. Where several
// agents serve one host, the one with the lowest number has them, and others ask it.
// Those of ranks that begin MPI again are others.
type attributes struct {
	values  map[string]string
	waiting map[string][]func(string)
	bytes   int
}

func newAttributes() attributes {
	return attributes{values: map[string]string{}, waiting: map[string][]func(string){}}
}

// attributesService is by which servers ask each other: a list of texts: what to do, the
// world, the key, the value.
const attributesService = "pmi/attributes"

// What may be done with an attribute, and how the answers begin.
const (
	attributePut  = "put"
	attributeGet  = "get"
	attributeWait = "wait"

	found   = "found"
	missing = "missing"
	refused = "refused"
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
// value, missing or refused; at once or later.
func (s *Server) attribute(sp *space, rank int, what, key, value string, done func(how, value string)) {
	// A host has one node of lowest number, but that may have ranks of other hosts, too.
	s.mu.Lock()
	generation := sp.generations[rank]
	s.mu.Unlock()
	key = strconv.Itoa(sp.w.Ranks[rank].Host) + "/" + strconv.Itoa(generation) + "/" + key
	node := sp.attributesNode(rank)
	if node == s.cfg.Node {
		s.attributeHere(sp, what, key, value, done)
		return
	}
	s.cfg.Plane.Ask(node, attributesService, packTexts(what, sp.w.Name, key, value), func(answer []byte, err error) {
		var texts []string
		if err == nil {
			texts, err = cutTexts(answer, 2)
		}
		if err == nil { // else the job ends
			done(texts[0], texts[1])
		}
	})
}

// attributeHere does it where this node has them.
func (s *Server) attributeHere(sp *space, what, key, value string, done func(how, value string)) {
	s.mu.Lock()
	a := &sp.attributes
	old, known := a.values[key]
	switch {
	case what == attributePut && a.bytes+len(key)+len(value) > maxBytes:
		s.mu.Unlock()
		done(refused, "")
	case what == attributePut:
		a.bytes += len(value) - len(old)
		if !known {
			a.bytes += len(key)
		}
		a.values[key] = value
		waiting := a.waiting[key]
		delete(a.waiting, key)
		s.mu.Unlock()
		done(found, value)
		for _, tell := range waiting {
			tell(value)
		}
	case !known && what == attributeWait:
		a.waiting[key] = append(a.waiting[key], func(value string) { done(found, value) })
		s.mu.Unlock()
	case !known:
		s.mu.Unlock()
		done(missing, "")
	default:
		s.mu.Unlock()
		done(found, old)
	}
}

// serveAttributes answers other nodes.
func (s *Server) serveAttributes(_ int, body []byte, reply func([]byte, error)) {
	texts, err := cutTexts(body, 4)
	if err != nil {
		reply(nil, err)
		return
	}
	sp := s.space(texts[1])
	if sp == nil {
		reply(packTexts(missing, ""), nil)
		return
	}
	s.attributeHere(sp, texts[0], texts[2], texts[3], func(how, value string) { reply(packTexts(how, value), nil) })
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
	s.cfg.Plane.Ask(sp.nodes[0], pairsService, packTexts(name, key), func(answer []byte, err error) {
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
