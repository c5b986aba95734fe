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

// fence serves FENCE: the ranks that it names wait for each other. If they collect, what they have committed for other
// hosts is sent to all their nodes.
func (s *Server) fence(q *request, d *decoder) func() status {
	members, infos := d.procList(), d.infoList()
	p := plan{kind: "fence", members: members, timeout: timeoutOf(infos), blob: s.epochs, done: s.fenced}
	if isTrue(infos, keyCollect) {
		p.blob, p.undo = s.collect, s.undoCollect
	}
	return func() status { return s.joinCollective(q, p) }
}

// timeoutOf returns how long a request may take, 0 for no limit.
func timeoutOf(infos []info) time.Duration { return secondsOf(infos, keyTimeout) }

// maxTimeout is the longest time that a request may name.
const maxTimeout = (1 << 31) * time.Second

// secondsOf returns the time that an attribute names, 0 if none exists.
func secondsOf(infos []info, key string) time.Duration {
	seconds, _ := integerOf(infos, key)
	return time.Duration(max(0, min(seconds, int64(maxTimeout/time.Second)))) * time.Second
}

// collect returns what this node's members have committed for other hosts: in a fence of one whole world only what is
// new, since its nodes have the rest. What does not fit is left out, and fetched on demand.
func (s *Server) collect(m *collective) []byte {
	if len(m.nodes) == 1 {
		return nil
	}
	var e encoder
	for _, p := range m.waiting() {
		_, member, _ := s.find(p)
		from := 0
		if m.isWorld() {
			from = member.data.shared
		}
		before := len(e.b)
		e.committed(p, &member.data, from)
		if len(e.b) > exchange.MaxBlob {
			e.b = e.b[:before]
			continue
		}
		if m.isWorld() {
			member.data.shared = len(member.data.remote)
		}
	}
	return e.b
}

// epochs returns which of this node's members have begun anew, in the form of collect but without their commits.
func (s *Server) epochs(m *collective) []byte {
	if len(m.nodes) == 1 {
		return nil
	}
	var e encoder
	for _, p := range m.waiting() {
		_, member, _ := s.find(p)
		e.committed(p, &member.data, len(member.data.remote))
	}
	return e.b
}

// committed encodes a rank, its epoch, an offset, and what it has committed from there; nothing if that is what other
// nodes assume.
func (e *encoder) committed(p world.Proc, data *store, from int) {
	if from == len(data.remote) && data.epoch == 0 {
		return
	}
	e.proc(p)
	e.uint64(uint64(data.epoch)<<32 | uint64(from))
	e.bytes(data.remote[from:])
}

// isWorld reports whether the members are one whole world.
func (m *collective) isWorld() bool {
	return len(m.members) == 1 && m.members[0].Rank == world.AllRanks
}

// undoCollect has the next fence bring everything again.
func (s *Server) undoCollect(m *collective) {
	for _, p := range m.waiting() {
		if _, member, _ := s.find(p); m.isWorld() {
			member.data.shared = 0
		}
	}
}

// fenced ends a fence.
func (s *Server) fenced(m *collective, blobs [][]byte) {
	s.mergeAll(m, blobs)
	m.replyStatus(statusSuccess)
}

// mergeAll adds what the other nodes have collected.
func (s *Server) mergeAll(m *collective, blobs [][]byte) {
	for i, blob := range blobs {
		if m.nodes[i] != s.number() {
			s.merge(m.nodes[i], blob)
		}
	}
}

// merge adds what a node has collected of its own ranks.
func (s *Server) merge(node int, blob []byte) {
	d := decoder{b: blob}
	for d.more() {
		p, number, part := d.proc(), d.uint64(), d.bytes()
		epoch, from := uint32(number>>32), number&math.MaxUint32
		if d.err != nil || from > maxStore {
			return
		}
		if _, member, ok := s.find(p); ok && s.serves(node, p) {
			member.data.merge(epoch, int(from), part)
		}
	}
}
