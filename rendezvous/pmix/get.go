package pmix

import (
	"slices"
	"strings"
	"time"

	"gorun/rendezvous/world"
)

// lateKeyTimeout is how long a rank that has committed may take to commit a key that another rank, or it itself, asks
// for without a timeout. PMIx's own server waits as long, and replies that it timed out, too.
const lateKeyTimeout = 2 * time.Second

// keyTopology is PMIX_HWLOC_XML_V2, keyLocalTopology PMIX_LOCAL_TOPO, which is the same.
const (
	keyTopology      = "pmix.hwlocxml2"
	keyLocalTopology = "pmix.ltopo"
)

// getArgs are the arguments of a GET.
type getArgs struct {
	of        world.Proc
	key       string // "" for all
	immediate bool   // do not wait for what is not here yet
	refresh   bool   // ask for remote data again
	timeout   time.Duration
}

// get serves GET: what a rank has committed, or what is known of a world.
func (s *Server) get(q *request, d *decoder) func() status {
	a := getArgs{of: d.nameAndRank()}
	infos := d.infoList()
	if d.more() {
		a.key = d.oneString()
	}
	a.immediate = isTrue(infos, keyImmediate) || isTrue(infos, keyOptional)
	a.refresh = isTrue(infos, keyRefresh)
	a.timeout = timeoutOf(infos)
	topology, known := s.topology(q, a)
	return func() status {
		n := s.spaces[a.of.World]
		group, ofGroup := groupNumber(a.key, infos)
		switch {
		case known:
			return q.replyData(a.of, encodeKvals(attr(a.key, topology)))
		case ofGroup:
			return s.getGroupData(q, a.of, group)
		case n == nil || a.of.Rank != world.AllRanks && !n.Has(a.of.Rank):
			return statusNotFound
		case a.of.Rank == world.AllRanks:
			return s.getWorld(q, n, a.key)
		case strings.HasPrefix(a.key, "pmix."):
			return s.getReserved(q, n, a.of, a.key)
		}
		s.getCommitted(q, n, a)
		return replied
	}
}

// getWorld replies what is known of a world. A client has everything that there is of its own.
func (s *Server) getWorld(q *request, n *namespace, key string) status {
	if key != "" {
		if v, ok := find(n.jobInfos(), key); ok {
			return q.replyData(n.wildcard(), encodeKvals(attr(key, v)))
		}
		if n == q.space {
			return statusNotFound
		}
	}
	q.markKnown(n)
	q.reply(n.allInfos())
	return replied
}

// topology returns the topology of this machine if that is what a client asks about its own world. Clients of Open MPI
// do, and otherwise discover it themselves, which takes each many milliseconds.
func (s *Server) topology(q *request, a getArgs) (xml string, known bool) {
	if a.key != keyTopology && a.key != keyLocalTopology || s.cfg.Topology == nil || a.of != q.space.wildcard() {
		return "", false
	}
	xml, err := s.cfg.Topology()
	return xml, err == nil
}

// markKnown records that a client is sent everything about a world, and reports whether that is new. Clients keep what
// they are sent.
func (c *conn) markKnown(n *namespace) bool {
	if n == c.space || c.knownSpaces[n] {
		return false
	}
	c.knownSpaces[n] = true
	return true
}

// getReserved replies the value of a key of PMIx's own, which is known from the beginning, committed already, or not
// there: no rank waits for it.
func (s *Server) getReserved(q *request, n *namespace, of world.Proc, key string) status {
	m := n.member(of.Rank)
	v, ok := lookUp(m.data.visible(s.sameHost(n, of.Rank, q)), key)
	if !ok || !m.isCurrent(q.epoch()) {
		v, ok = find(n.rankInfos(of.Rank), key)
	}
	if !ok {
		return statusNotFound
	}
	return q.replyData(of, encodeKvals(attr(key, v)))
}

// hostOf returns the index, among the hosts of a world, of the one on which the client runs; -1 if it runs on another
// host.
func (s *Server) hostOf(n *namespace, q *request) int {
	return slices.Index(n.Hosts, s.hostName(q.proc))
}

// sameHost reports whether a rank runs on the client's host.
func (s *Server) sameHost(n *namespace, rank int, q *request) bool {
	return n.Ranks[rank].Host == s.hostOf(n, q)
}

// getCommitted replies what a rank has committed, now or when it has.
func (s *Server) getCommitted(q *request, n *namespace, a getArgs) {
	sameHost := s.sameHost(n, a.of.Rank, q)
	h := &heldGet{by: q.proc, of: a.of, key: a.key, sameHost: sameHost, epoch: q.epoch()}
	h.reply = func(code status, kvals []byte) { q.replyCommitted(n, h, code, kvals, !a.refresh) }
	if n.IsLocal(a.of.Rank) {
		s.getLocal(h, a.immediate, a.timeout)
		return
	}
	// What fences and earlier requests brought is for ranks on other hosts, and may be from the program that the rank ran
	// before.
	m := n.member(a.of.Rank)
	if !sameHost && !a.refresh && m.isCurrent(h.epoch) {
		if _, ok := lookUp(m.data.remote, a.key); ok {
			h.reply(statusSuccess, m.data.remote)
			return
		}
	}
	if a.immediate {
		h.reply(statusNotFound, nil)
		return
	}
	s.requestCommitted(h, n.Ranks[a.of.Rank].Node, a.timeout)
}

// replyCommitted replies what a rank of n has committed. A client of another world gets, once, what is known of n from
// the beginning, too. A client on the same host gets the commits of other ranks there if prefetch is set.
func (q *request) replyCommitted(n *namespace, h *heldGet, code status, kvals []byte, prefetch bool) {
	if code != statusSuccess {
		q.status(code)
		return
	}
	parts := [][]byte{encodedSuccess, encodeData(h.of, kvals)}
	if q.markKnown(n) {
		parts[0] = n.allInfos()
	}
	if h.sameHost && prefetch {
		m := n.member(h.of.Rank)
		q.sentData[m] = share{m.data.epoch, len(kvals)}
		parts = append(parts, q.prefetch(n, h.of.Rank)...)
	}
	q.reply(parts...)
}

// encodedSuccess is a group {status}.
var encodedSuccess = []byte{0, 0, 0, 1, 0, 0, 0, 0}

// maxPrefetch bounds the commits of other ranks in a reply, in bytes.
const maxPrefetch = 64 << 10

// prefetch returns, as groups {byte object}, what the other local ranks of a rank's host have committed and the client
// has not been sent. Clients request the data of their peers one after the other and look first into what they have, so
// that one request does for all.
func (q *request) prefetch(n *namespace, of int) (objects [][]byte) {
	ranks := n.ByHost[n.Ranks[of].Host]
	at, _ := slices.BinarySearch(ranks, of)
	left := maxPrefetch
	for _, rank := range slices.Concat(ranks[at+1:], ranks[:at]) {
		m := n.members[rank]
		if m == nil || m == q.member || !m.data.committed || !m.isCurrent(q.epoch()) {
			continue
		}
		kvals := m.data.local
		if sent := q.sentData[m]; sent.epoch == m.data.epoch {
			kvals = kvals[min(sent.bytes, len(kvals)):] // Forget has dropped what was sent
		}
		if len(kvals) == 0 || len(kvals) > left {
			continue
		}
		left -= len(kvals)
		q.sentData[m] = share{m.data.epoch, len(m.data.local)}
		objects = append(objects, encodeData(n.Proc(rank), kvals))
	}
	return objects
}

// share is the first bytes of what a rank has committed for its host in an epoch.
type share struct {
	epoch uint32
	bytes int
}

// replyData replies kvals of one process.
func (q *request) replyData(of world.Proc, kvals []byte) status {
	var e encoder
	e.oneStatus(statusSuccess)
	e.oneData(of, kvals)
	q.reply(e.b)
	return replied
}

// oneData encodes a group {byte object}: group {process}, and its kvals in groups of one.
func (e *encoder) oneData(of world.Proc, kvals []byte) {
	var data encoder
	data.oneProc(of)
	e.oneBytes(append(data.b, kvals...))
}

// heldGet is a GET of what a rank has committed, by a client here or on another node.
type heldGet struct {
	by, of   world.Proc
	epoch    uint32 // of by
	key      string
	sameHost bool
	timer    *time.Timer
	over     bool
	reply    func(code status, kvals []byte) // called with the lock held
}

// getLocal replies what a rank of this node has committed, or holds the request until it has.
func (s *Server) getLocal(h *heldGet, immediate bool, timeout time.Duration) {
	_, m, _ := s.find(h.of)
	kvals, committed := m.data.visible(h.sameHost), m.data.committed && m.isCurrent(h.epoch)
	found := h.key == ""
	if !found {
		_, found = lookUp(kvals, h.key)
	}
	switch {
	case found && committed:
		h.reply(statusSuccess, kvals)
	case immediate:
		h.reply(statusNotFound, nil)
	case m.exited:
		s.failGet(h, m)
	default:
		if (committed || h.by == h.of) && timeout == 0 {
			timeout = lateKeyTimeout
		}
		m.held = append(m.held, h)
		if timeout > 0 {
			h.timer = time.AfterFunc(timeout, func() { s.expireGet(h, m) })
		}
	}
}

// finishHeld answers the requests that waited for a commit. They get everything, even without the key that they ask
// for, as from PMIx's own server.
func (s *Server) finishHeld(m *member) {
	held := m.held
	m.held = nil
	for _, h := range held {
		h.finish(statusSuccess, m.data.visible(h.sameHost))
	}
}

// failHeld answers the requests that waited for a rank which has exited.
func (s *Server) failHeld(m *member) {
	held := m.held
	m.held = nil
	for _, h := range held {
		s.failGet(h, m)
	}
}

// failGet answers a request for what a rank that has exited did not commit.
func (s *Server) failGet(h *heldGet, m *member) {
	if !m.data.committed {
		s.node.Stuck([]world.Proc{h.by}, h.of)
	}
	h.finish(statusNotFound, nil)
}

func (s *Server) expireGet(h *heldGet, m *member) {
	s.node.Lock()
	defer s.node.Unlock()
	m.held = slices.DeleteFunc(m.held, func(other *heldGet) bool { return other == h })
	h.finish(statusTimeout, nil)
}

// finish replies, once.
func (h *heldGet) finish(code status, kvals []byte) {
	if h.over {
		return
	}
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.reply(code, kvals)
}
