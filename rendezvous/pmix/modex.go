package pmix

import (
	"slices"
	"strconv"
	"time"

	"gorun/rendezvous/world"
)

// modexService answers what a rank of a node has committed, to other nodes.
//
//	question: asking process | process | key | same host (1 or 0) | timeout in seconds | era of who asks
//	answer:   status | the rank's era | kvals in groups of one
const modexService = "pmix.modex"

// askNode asks the node that serves a rank. Those who ask the same at the same time share
// one question.
func (s *Server) askNode(h *held, node int, timeout time.Duration) {
	seconds := uint32(timeout / time.Second)
	var e encoder
	e.proc(fromWorld(h.of))
	e.string(h.key)
	e.uint8(bit(h.sameHost))
	e.uint32(seconds)
	e.uint32(h.era)
	same := strconv.Itoa(node) + "/" + string(e.b)
	others, under := s.asked[same]
	s.asked[same] = append(others, h)
	if under {
		return
	}
	question := encoder{}
	question.proc(fromWorld(h.who))
	body := append(question.b, e.b...)
	s.cfg.Plane.Ask(node, modexService, body, func(answer []byte, err error) { s.answered(same, answer, err) })
}

// answered hears what the node of a rank answers.
func (s *Server) answered(same string, answer []byte, err error) {
	s.lock()
	defer s.unlock()
	asking := s.asked[same]
	delete(s.asked, same)
	d := decoder{b: answer}
	code, era := d.status(), d.uint32()
	if err != nil || d.err != nil {
		code = statusError
	}
	for _, h := range asking {
		if code == statusSuccess && !h.sameHost {
			if _, m, ok := s.find(h.of); ok {
				m.data.learn(era, 0, d.b)
			}
		}
		h.finish(code, slices.Clone(d.b))
	}
}

// answerModex answers another node.
func (s *Server) answerModex(_ int, d *decoder, reply func(answer []byte)) {
	h := &held{who: d.proc().toWorld(), of: d.proc().toWorld(), key: d.string(), sameHost: d.uint8() == 1}
	timeout := time.Duration(d.uint32()) * time.Second
	h.era = d.uint32()
	h.give = func(code status, kvals []byte) {
		var e encoder
		e.uint32(uint32(code))
		e.uint32(s.eraOf(h.of))
		reply(append(e.b, kvals...))
	}
	n, _, ok := s.find(h.of)
	switch {
	case d.err != nil:
	case !ok || n.world.Ranks[h.of.Rank].Node != s.cfg.Node:
		h.give(statusNotFound, nil)
	default:
		s.getHere(h, false, timeout)
	}
}

// eraOf is the era of what a rank has committed; 0 for one that there is not.
func (s *Server) eraOf(p world.Proc) uint32 {
	if _, m, ok := s.find(p); ok {
		return m.data.era
	}
	return 0
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}
