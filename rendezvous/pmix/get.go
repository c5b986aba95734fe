package pmix

import (
	"slices"
	"strings"
	"time"

	"gorun/rendezvous/world"
)

// lateKey is how long a rank that has committed may take to commit a key that another asks
// for, or that it asks for itself, where no timeout is given. PMIx's own server waits as long,
// and says that it timed out then, too.
const lateKey = 2 * time.Second

// keyTopology is PMIX_HWLOC_XML_V2, keyLocalTopology PMIX_LOCAL_TOPO, which is the same.
const (
	keyTopology      = "pmix.hwlocxml2"
	keyLocalTopology = "pmix.ltopo"
)

// want is what a GET asks for.
type want struct {
	of  proc
	key string // "": all
	// immediate: not what is not here yet; refresh: not what is here.
	immediate, refresh bool
	timeout            time.Duration
}

// get serves GET: what a rank has committed, or what is known of a world.
func (s *Server) get(q *request, d *decoder) func() status {
	w := want{of: proc{nspace: d.oneString(), rank: d.oneUint32()}}
	infos := d.infoList()
	if d.more() {
		w.key = d.oneString()
	}
	w.immediate = isTrue(infos, keyImmediate) || isTrue(infos, keyOptional)
	w.refresh = isTrue(infos, keyRefresh)
	w.timeout = timeoutOf(infos)
	topology, known := s.topology(q, w)
	return func() status {
		n, of := s.spaces[w.of.nspace], w.of.toWorld()
		group, ofGroup := groupOf(w.key, infos)
		switch {
		case known:
			return q.replyData(w.of, encodeKvals(attr(w.key, topology)))
		case ofGroup:
			return s.getGiven(q, w.of, group)
		case n == nil || of.Rank != world.AllRanks && !n.has(of.Rank):
			return statusNotFound
		case of.Rank == world.AllRanks:
			return s.getWorld(q, n, w.key)
		case strings.HasPrefix(w.key, "pmix."):
			return s.getReserved(q, n, of, w.key)
		}
		s.getCommitted(q, n, of, w)
		return replied
	}
}

// getWorld answers what is known of a world. A client has that of its own already, but
// for what there is not.
func (s *Server) getWorld(q *request, n *namespace, key string) status {
	if key != "" {
		if v, ok := find(n.jobInfos(), key); ok {
			return q.replyData(n.wildcard(), encodeKvals(attr(key, v)))
		}
		if n == q.space {
			return statusNotFound
		}
	}
	q.tell(n)
	q.reply(n.everything())
	return replied
}

// topology is that of this machine, as far as it is known, for who asks for it among what is
// known of its world: clients of Open MPI do so, and discover it themselves where there is no answer, for which each
// takes many milliseconds.
func (s *Server) topology(q *request, w want) (xml string, known bool) {
	if w.key != keyTopology && w.key != keyLocalTopology || s.cfg.Topology == nil || w.of != q.space.wildcard() {
		return "", false
	}
	xml, err := s.cfg.Topology()
	return xml, err == nil
}

// tell notes that a client gets everything about a world, and reports whether it has not
// got it before. Clients keep what they get.
func (c *conn) tell(n *namespace) bool {
	if n == c.space || c.told[n] {
		return false
	}
	if c.told == nil {
		c.told = map[*namespace]bool{}
	}
	c.told[n] = true
	return true
}

// getReserved answers what is known of a rank by a key of PMIx's own, which no rank is
// waited for: either one has committed it or it is known from the beginning.
func (s *Server) getReserved(q *request, n *namespace, of world.Proc, key string) status {
	sameHost := n.world.Ranks[of.Rank].Host == s.hostOf(n, q)
	m := n.member(of.Rank)
	v, ok := lookUp(m.data.seen(sameHost), key)
	if !ok || !m.isCurrent(q.era()) {
		v, ok = find(n.rankInfos(of.Rank), key)
	}
	if !ok {
		return statusNotFound
	}
	return q.replyData(fromWorld(of), encodeKvals(attr(key, v)))
}

// hostOf is the number, among a world's hosts, of the one on which a rank that asks runs;
// -1: none of them.
func (s *Server) hostOf(n *namespace, q *request) int {
	return slices.Index(n.world.Hosts, s.hostName(q.who))
}

// getCommitted answers what a rank has committed, now or when it has.
func (s *Server) getCommitted(q *request, n *namespace, of world.Proc, w want) {
	r := n.world.Ranks[of.Rank]
	sameHost := r.Host == s.hostOf(n, q)
	h := &held{who: q.who, of: of, key: w.key, sameHost: sameHost, era: q.era()}
	h.give = func(code status, kvals []byte) { q.giveCommitted(n, h, code, kvals, !w.refresh) }
	if r.Node == s.cfg.Node {
		s.getHere(h, w.immediate, w.timeout)
		return
	}
	// What fences and questions brought is for ranks on other hosts, and may be of the program
	// that the rank ran before.
	m := n.member(of.Rank)
	if !sameHost && !w.refresh && m.isCurrent(h.era) {
		if _, ok := lookUp(m.data.away, w.key); ok {
			h.give(statusSuccess, m.data.away)
			return
		}
	}
	if w.immediate {
		h.give(statusNotFound, nil)
		return
	}
	s.askNode(h, r.Node, w.timeout)
}

// giveCommitted answers with what a rank of n has committed. Who is of another world gets
// what that one's ranks know of it from the beginning, too, once; who is on the same host, if
// unasked is set, what it has not asked for yet.
func (q *request) giveCommitted(n *namespace, h *held, code status, kvals []byte, unasked bool) {
	if code != statusSuccess {
		q.status(code)
		return
	}
	m := n.member(h.of.Rank)
	parts := [][]byte{encodedSuccess, m.data.object(fromWorld(h.of), kvals)}
	if q.tell(n) {
		parts[0] = n.everything()
	}
	if h.sameHost && unasked {
		q.hear(m, len(kvals))
		parts = append(parts, q.unasked(n, h.of.Rank)...)
	}
	q.reply(parts...)
}

// encodedSuccess is a group {status}.
var encodedSuccess = []byte{0, 0, 0, 1, 0, 0, 0, 0}

// maxUnasked bounds what an answer has of ranks that were not asked for, in bytes of what they
// have committed.
const maxUnasked = 64 << 10

// unasked is what the other ranks of a rank's host have committed that are served here, in
// groups {byte object}, as far as the client has not got it. A client asks for its peers one
// after the other, and looks first into what it has: so one question does for all. What is
// committed later it gets by the next one, or when it asks for it anew.
func (q *request) unasked(n *namespace, of int) (objects [][]byte) {
	ranks := n.byHost[n.world.Ranks[of].Host]
	at, _ := slices.BinarySearch(ranks, of)
	left := maxUnasked
	for _, rank := range slices.Concat(ranks[at+1:], ranks[:at]) {
		m := n.members[rank]
		if m == nil || m == q.member || !m.data.committed || !m.isCurrent(q.era()) {
			continue
		}
		kvals := m.data.home[q.heard(m):]
		if len(kvals) == 0 || len(kvals) > left {
			continue
		}
		left -= len(kvals)
		q.hear(m, len(m.data.home))
		objects = append(objects, m.data.object(proc{n.world.Name, uint32(rank)}, kvals))
	}
	return objects
}

// heard is how much a client has of what a rank on its host has committed for that.
func (c *conn) heard(m *member) int {
	if has := c.has[m]; has.era == m.data.era {
		return has.bytes
	}
	return 0
}

// hear notes that a client gets what a rank has committed, as many bytes from the beginning.
func (c *conn) hear(m *member, bytes int) {
	if c.has == nil {
		c.has = map[*member]share{}
	}
	c.has[m] = share{m.data.era, bytes}
}

// share is a beginning of what a rank has committed for its host.
type share struct {
	era   uint32
	bytes int
}

// replyData answers with kvals of one process.
func (q *request) replyData(of proc, kvals []byte) status {
	var e encoder
	e.oneStatus(statusSuccess)
	e.oneData(of, kvals)
	q.reply(e.b)
	return replied
}

// oneData is a group {byte object}: group {process}, and its kvals in groups of one.
func (e *encoder) oneData(of proc, kvals []byte) {
	var data encoder
	data.oneProc(of)
	e.oneBytes(append(data.b, kvals...))
}

// held is a request for what a rank has committed, of a rank here or on another node.
type held struct {
	// who asks, of whom; era is that of who asks.
	who, of  world.Proc
	era      uint32
	key      string
	sameHost bool
	timer    *time.Timer
	over     bool
	// give answers, with the server locked.
	give func(code status, kvals []byte)
}

// getHere answers what a rank of this node has committed, or holds the request until then.
func (s *Server) getHere(h *held, immediate bool, timeout time.Duration) {
	_, m, _ := s.find(h.of)
	kvals, committed := m.data.seen(h.sameHost), m.data.committed && m.isCurrent(h.era)
	found := h.key == ""
	if !found {
		_, found = lookUp(kvals, h.key)
	}
	switch {
	case found && committed:
		h.give(statusSuccess, kvals)
	case immediate:
		h.give(statusNotFound, nil)
	case m.ended:
		s.giveUp(h, m)
	default:
		if (committed || h.who == h.of) && timeout == 0 {
			timeout = lateKey
		}
		m.waiting = append(m.waiting, h)
		if timeout > 0 {
			h.timer = time.AfterFunc(timeout, func() { s.expireHeld(h, m) })
		}
	}
}

// giveHeld answers who waited for what a rank has committed now. They get all of it, also
// where the key they asked for is not there: so PMIx's own server does.
func (s *Server) giveHeld(m *member) {
	waiting := m.waiting
	m.waiting = nil
	for _, h := range waiting {
		h.finish(statusSuccess, m.data.seen(h.sameHost))
	}
}

// dropHeld answers who waited for what a rank that has ended has not committed.
func (s *Server) dropHeld(m *member) {
	waiting := m.waiting
	m.waiting = nil
	for _, h := range waiting {
		s.giveUp(h, m)
	}
}

// giveUp answers who asks for what a rank that has ended has not committed.
func (s *Server) giveUp(h *held, m *member) {
	if !m.data.committed {
		s.stuck([]world.Proc{h.who}, h.of)
	}
	h.finish(statusNotFound, nil)
}

func (s *Server) expireHeld(h *held, m *member) {
	s.lock()
	defer s.unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(other *held) bool { return other == h })
	h.finish(statusTimeout, nil)
}

// finish answers once.
func (h *held) finish(code status, kvals []byte) {
	if h.over {
		return
	}
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.give(code, kvals)
}
