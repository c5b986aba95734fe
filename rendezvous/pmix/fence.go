package pmix

import (
	"math"
	"time"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Attributes of requests.
const (
	keyCollect   = "pmix.collect"
	keyTimeout   = "pmix.timeout"
	keyImmediate = "pmix.immediate"
	keyOptional  = "pmix.optional"
	keyRefresh   = "pmix.get.refresh"
)

// fence serves FENCE: the ranks that it names wait for one another and, if they are to
// collect, what they have committed for other hosts comes to all their nodes.
func (s *Server) fence(q *request, d *decoder) func() status {
	members, infos := d.procList(), d.infoList()
	p := plan{kind: "fence", members: members, timeout: timeoutOf(infos), blob: s.eras, done: s.fenced}
	if isTrue(infos, keyCollect) {
		p.blob, p.undo = s.collect, s.collectAgain
	}
	return func() status { return s.meet(q, p) }
}

// timeoutOf is how long a request may take; 0: as long as it likes.
func timeoutOf(infos []info) time.Duration { return secondsOf(infos, keyTimeout) }

// maxTimeout is the longest time that a request may name.
const maxTimeout = (1 << 31) * time.Second

// secondsOf is the time that an attribute names; 0: none.
func secondsOf(infos []info, key string) time.Duration {
	seconds, _ := integerOf(infos, key)
	return time.Duration(max(0, min(seconds, int64(maxTimeout/time.Second)))) * time.Second
}

// collect is what this node's members of a fence have committed for other hosts. A fence of
// one whole world brings what is new; other nodes may take part in others, and get all. What
// does not fit is left out, and fetched by those who ask for it.
func (s *Server) collect(m *meeting) []byte {
	if len(m.nodes) == 1 {
		return nil
	}
	var e encoder
	for _, p := range m.waiting() {
		_, member, _ := s.find(p)
		from := 0
		if m.whole() {
			from = member.data.sent
		}
		before := len(e.b)
		e.committed(p, &member.data, from)
		if len(e.b) > exchange.MaxBlob {
			e.b = e.b[:before]
			continue
		}
		if m.whole() {
			member.data.sent = len(member.data.away)
		}
	}
	return e.b
}

// eras is what collect is without what was committed: which of this node's members have begun
// anew, for nodes that know what they had committed before.
func (s *Server) eras(m *meeting) []byte {
	if len(m.nodes) == 1 {
		return nil
	}
	var e encoder
	for _, p := range m.waiting() {
		_, member, _ := s.find(p)
		e.committed(p, &member.data, len(member.data.away))
	}
	return e.b
}

// committed is a rank, its era, from which byte on, and what it has committed from there; nothing
// where others know that there is nothing.
func (e *encoder) committed(p world.Proc, data *store, from int) {
	if from == len(data.away) && data.era == 0 {
		return
	}
	e.proc(fromWorld(p))
	e.uint64(uint64(data.era)<<32 | uint64(from))
	e.bytes(data.away[from:])
}

// whole reports whether all of one world take part.
func (m *meeting) whole() bool { return len(m.who) == 1 && m.who[0].Rank == world.AllRanks }

// collectAgain has the next fence bring all again, of which others keep what they lack.
func (s *Server) collectAgain(m *meeting) {
	for _, p := range m.waiting() {
		if _, member, _ := s.find(p); m.whole() {
			member.data.sent = 0
		}
	}
}

// fenced ends a fence: what the other nodes collected is known from now on.
func (s *Server) fenced(m *meeting, blobs [][]byte) {
	s.learnAll(m, blobs)
	m.answerStatus(statusSuccess)
}

// learnAll takes over what the other nodes collected.
func (s *Server) learnAll(m *meeting, blobs [][]byte) {
	for i, blob := range blobs {
		if m.nodes[i] != s.cfg.Node {
			s.learn(blob)
		}
	}
}

// learn takes over what another node collected.
func (s *Server) learn(blob []byte) {
	d := decoder{b: blob}
	for d.more() {
		p, number, part := d.proc(), d.uint64(), d.bytes()
		era, from := uint32(number>>32), number&math.MaxUint32
		if d.err != nil || from > maxStore {
			return
		}
		if _, member, ok := s.find(p.toWorld()); ok {
			member.data.learn(era, int(from), part)
		}
	}
}
