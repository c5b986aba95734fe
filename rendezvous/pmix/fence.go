package pmix

import (
	"maps"
	"time"

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
func (s *Server) fence(q *request) error {
	members := q.body.procList()
	infos := q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	collects := isTrue(infos, keyCollect)
	blob := func(m *meeting) []byte { return s.depart(m, collects) }
	s.meet(q, plan{kind: "fence", members: members, timeout: timeoutOf(infos), blob: blob, done: s.fenced})
	return nil
}

// depart notes that a fence waits for other nodes, and gives them what it collects.
func (s *Server) depart(m *meeting, collects bool) []byte {
	maps.DeleteFunc(s.crossing, func(m *meeting, _ bool) bool { return m.over }) // those that timed out
	if len(m.nodes) > 1 {
		s.crossing[m] = true
	}
	if !collects {
		return nil
	}
	return s.collect(m)
}

// timeoutOf is how long a request may take; 0: as long as it likes.
func timeoutOf(infos []info) time.Duration {
	v, ok := find(infos, keyTimeout)
	if !ok {
		return 0
	}
	seconds, _ := v.integer()
	return time.Duration(max(0, min(seconds, 1<<31))) * time.Second
}

// collect is what this node's members of a fence have committed for other hosts: for each
// the process, from which byte on, and the bytes. A fence of one whole world brings what is
// new; other nodes may take part in others, and get all.
func (s *Server) collect(m *meeting) []byte {
	if len(m.nodes) == 1 {
		return nil
	}
	whole := len(m.who) == 1 && m.who[0].Rank == world.AllRanks
	var e encoder
	for _, p := range m.waiting() {
		_, member, _ := s.find(p)
		from := 0
		if whole {
			from = member.data.sent
			member.data.sent = len(member.data.away)
		}
		if from < len(member.data.away) {
			e.proc(fromWorld(p))
			e.uint64(uint64(from))
			e.bytes(member.data.away[from:])
		}
	}
	return e.b
}

// fenced ends a fence: what the other nodes collected is known from now on.
func (s *Server) fenced(m *meeting, blobs [][]byte, err error) {
	s.mu.Lock()
	delete(s.crossing, m)
	s.mu.Unlock()
	if err != nil {
		m.answerStatus(statusError)
		return
	}
	s.mu.Lock()
	for i, blob := range blobs {
		if m.nodes[i] != s.cfg.Node {
			s.learn(blob)
		}
	}
	s.mu.Unlock()
	m.answerStatus(statusSuccess)
}

// learn takes over what another node collected.
func (s *Server) learn(blob []byte) {
	d := decoder{b: blob}
	for d.more() {
		p, from, part := d.proc(), d.uint64(), d.bytes()
		if d.err != nil || from > maxStore {
			return
		}
		if _, member, ok := s.find(p.toWorld()); ok {
			member.data.learn(int(from), part)
		}
	}
}
