package pmix

import (
	"slices"

	"gorun/rendezvous/world"
)

// dataRange says who is to hear of an event, or to see what is published.
type dataRange uint8

const (
	rangeUndefined dataRange = 0 // not said: all
	rangeRM        dataRange = 1 // the launcher alone
	rangeLocal     dataRange = 2 // ranks on this host
	rangeNamespace dataRange = 3 // ranks of the same world
	rangeSession   dataRange = 4 // all ranks of the job
	rangeGlobal    dataRange = 5 // all
	rangeCustom    dataRange = 6 // those that an attribute names
	rangeProcLocal dataRange = 7 // the process itself
)

const (
	// tagEvent is the tag of events, which are no replies.
	tagEvent = 0
	// keptEvents is how many events are kept for those who register later.
	keptEvents = 64
	// maxEvent is how large one may be, in bytes.
	maxEvent = 64 << 10
	// maxCodes is how many codes a client may have registered.
	maxCodes = 1 << 12

	keyEventNotCached  = "pmix.evnocache"
	keyEventNotDefault = "pmix.evnondef"
	keyEventTargets    = "pmix.evrange"
)

// event is something that ranks hear of which have registered for its code.
type event struct {
	code   status
	source proc
	to     dataRange
	// targets are who hears of it, for rangeCustom.
	targets []proc
	infos   []info
	// alert says that the server of the source's node tells it: the source hears it, too.
	alert bool
}

// eventHistory is the last events.
type eventHistory []event

// registerEvents serves REGISTER EVENTS: the rank wants to hear of events with certain
// codes, or of all.
func (s *Server) registerEvents(q *request) error {
	codes := listed(&q.body, q.body.status)
	q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	defer s.unlock()
	c := q.conn
	if len(c.interest.codes)+len(codes) > maxCodes {
		q.status(statusOutOfResource)
		return nil
	}
	q.status(statusSuccess)
	fresh := c.interest.add(codes)
	for _, e := range s.events {
		if s.reaches(e, c.who) && fresh.wants(e) && e.source != fromWorld(c.who) {
			c.push(tagEvent, e.message(), maxUnread)
		}
	}
	return nil
}

// interest is the codes of events that a client wants to hear of; any: of all.
type interest struct {
	codes map[status]bool
	any   bool
}

// add adds codes, none for all, and returns what is new of that.
func (i *interest) add(codes []status) interest {
	fresh := interest{codes: map[status]bool{}, any: len(codes) == 0}
	i.any = i.any || fresh.any
	if i.codes == nil {
		i.codes = map[status]bool{}
	}
	for _, code := range codes {
		if !i.codes[code] {
			i.codes[code], fresh.codes[code] = true, true
		}
	}
	return fresh
}

func (i interest) wants(e event) bool {
	return i.codes[e.code] || i.any && !isTrue(e.infos, keyEventNotDefault)
}

// deregisterEvents serves DEREGISTER EVENTS: codes in groups of one. It has no answer.
func (s *Server) deregisterEvents(q *request) error {
	var codes []status
	q.noReply()
	for q.body.more() {
		codes = append(codes, q.body.oneStatus())
	}
	if q.body.err != nil {
		return q.body.err
	}
	s.lock()
	defer s.unlock()
	for _, code := range codes {
		delete(q.conn.interest.codes, code)
	}
	return nil
}

// notify serves NOTIFY: a rank tells others of an event. It has its answer when all nodes
// have: a rank that tells without end waits for them so.
func (s *Server) notify(q *request) error {
	e := event{code: q.body.oneStatus(), source: fromWorld(q.from())}
	e.to = dataRange(q.body.oneUint8())
	e.infos = q.body.infoList()
	if q.body.err != nil {
		return q.body.err
	}
	if q.size > maxEvent {
		q.status(statusOutOfResource)
		return nil
	}
	e.targets = targetsOf(e.infos)
	s.tell(e, func(bool) { q.status(statusSuccess) })
	return nil
}

// targetsOf are the processes that an event is for, where it says so.
func targetsOf(infos []info) []proc {
	v, ok := find(infos, keyEventTargets)
	if !ok {
		return nil
	}
	if p, ok := v.proc(); ok {
		return []proc{p}
	}
	targets, _ := v.procs()
	return targets
}

// tell tells all ranks for which an event is, wherever they are. done is called when all nodes
// have heard of it, or never will, with whether one of the ranks has registered for its code.
func (s *Server) tell(e event, done func(wanted bool)) {
	s.lock()
	defer s.unlock()
	wanted := s.deliver(e)
	others := slices.DeleteFunc(s.nodesOf(e), func(node int) bool { return node == s.cfg.Node })
	heard := func(_ int, answer []byte, _ error) { wanted = wanted || len(answer) == 1 && answer[0] == 1 }
	s.askAll(others, eventService, e.encode(), heard, func() { s.afterUnlock(func() { done(wanted) }) })
}

// nodesOf are the nodes on which an event may be for someone.
func (s *Server) nodesOf(e event) []int {
	nodes := map[int]bool{}
	host := s.hostName(e.source.toWorld())
	for name, n := range s.spaces {
		switch {
		case e.to == rangeLocal: // other agents may be on this host
			n.addNodesOn(host, nodes)
		case e.to == rangeNamespace && name == e.source.nspace,
			e.to == rangeUndefined, e.to == rangeSession, e.to == rangeGlobal,
			e.to == rangeCustom && slices.ContainsFunc(e.targets, func(p proc) bool { return p.nspace == name }):
			for _, node := range n.nodes {
				nodes[node] = true
			}
		}
	}
	return sortedKeys(nodes)
}

// addNodesOn adds the nodes that serve its ranks on a host.
func (n *namespace) addNodesOn(host string, nodes map[int]bool) {
	at := slices.Index(n.world.Hosts, host)
	if at < 0 {
		return
	}
	for _, rank := range n.ranksOn(at) {
		nodes[n.world.Ranks[rank].Node] = true
	}
}

// deliver tells the ranks of this node, and keeps the event for who registers later. It reports
// whether one of them has registered for its code.
func (s *Server) deliver(e event) (wanted bool) {
	if e.to == rangeRM || e.to == rangeProcLocal {
		return false
	}
	message := e.message()
	for c := range s.conns {
		if !s.reaches(e, c.who) || !c.interest.wants(e) || fromWorld(c.who) == e.source && !e.alert {
			continue
		}
		wanted = wanted || c.interest.codes[e.code]
		c.push(tagEvent, message, maxUnread)
	}
	if !isTrue(e.infos, keyEventNotCached) {
		s.events = append(s.events, e)
		if len(s.events) > keptEvents {
			s.events = slices.Delete(s.events, 0, 1)
		}
	}
	return wanted
}

// reaches reports whether an event is for a rank of this node.
func (s *Server) reaches(e event, p world.Proc) bool {
	return e.isFor(p) && (e.to != rangeLocal || s.hostName(e.source.toWorld()) == s.hostName(p))
}

// hostName is the name of the host on which a rank runs.
func (s *Server) hostName(p world.Proc) string {
	n, _, ok := s.find(p)
	if !ok {
		return ""
	}
	return n.world.Hosts[n.world.Ranks[p.Rank].Host]
}

// isFor reports whether a rank is among those whom an event's range and targets name.
func (e event) isFor(p world.Proc) bool {
	switch e.to {
	case rangeNamespace:
		return e.source.nspace == p.World
	case rangeCustom:
		return slices.ContainsFunc(e.targets, func(t proc) bool {
			return t.nspace == p.World && (t.rank == rankWildcard || t == fromWorld(p))
		})
	case rangeUndefined, rangeLocal, rangeSession, rangeGlobal:
		return true
	}
	return false
}

// message is what a client gets: group {command}, group {code}, group {source}, infos. PMIx's
// own servers, from 4.2 on, end it with group {range}, which no client reads.
func (e event) message() []byte {
	var m encoder
	m.group(1)
	m.uint8(uint8(commandNotify))
	m.oneStatus(e.code)
	m.oneProc(e.source)
	m.infoList(e.infos)
	return m.b
}

// eventService tells another node of an event: range, targets, and the client's message. The
// answer is 1 where a rank there has registered for its code, else 0.
const eventService = "pmix.event"

func (e event) encode() []byte {
	var b encoder
	b.uint8(uint8(e.to))
	b.procList(e.targets)
	return append(b.b, e.message()...)
}

func decodeEvent(body []byte) (event, error) {
	d := decoder{b: body}
	e := event{to: dataRange(d.uint8()), targets: d.procList()}
	d.oneUint8()
	e.code = d.oneStatus()
	e.source = d.oneProc()
	e.infos = d.infoList()
	return e, d.err
}

// answerEvent hears of an event from another node.
func (s *Server) answerEvent(_ int, body []byte, reply func([]byte, error)) {
	e, err := decodeEvent(slices.Clone(body))
	wanted := false
	if err == nil {
		s.lock()
		wanted = s.deliver(e)
		s.unlock()
	}
	reply([]byte{bit(wanted)}, err)
}
