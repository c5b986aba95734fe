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
func (s *Server) registerEvents(q *request, d *decoder) func() status {
	codes := listed(d, d.status)
	d.infoList()
	return func() status {
		if len(q.interest.codes)+len(codes) > maxCodes {
			return statusOutOfResource
		}
		q.status(statusSuccess)
		fresh := q.interest.add(codes)
		for _, e := range s.events {
			if s.reaches(e, q.who) && fresh.wants(e) && e.source != fromWorld(q.who) {
				q.push(tagEvent, e.message(), maxUnread)
			}
		}
		return replied
	}
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
func (s *Server) deregisterEvents(q *request, d *decoder) func() status {
	var codes []status
	for d.more() {
		codes = append(codes, d.oneStatus())
	}
	return func() status {
		for _, code := range codes {
			delete(q.interest.codes, code)
		}
		q.noReply()
		return replied
	}
}

// notify serves NOTIFY: a rank tells others of an event. It has its answer when all nodes
// have: a rank that tells without end waits for them so.
func (s *Server) notify(q *request, d *decoder) func() status {
	e := event{code: d.oneStatus(), source: fromWorld(q.who)}
	e.to = dataRange(d.oneUint8())
	e.infos = d.infoList()
	return func() status {
		if q.size > maxEvent {
			return statusOutOfResource
		}
		e.targets = targetsOf(e.infos)
		s.tell(e, func(bool) { q.status(statusSuccess) })
		return replied
	}
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
// Whoever calls it has the server locked, and so has done.
func (s *Server) tell(e event, done func(wanted bool)) {
	wanted := s.deliver(e)
	heard := func(_ int, answer []byte, _ error) { wanted = wanted || len(answer) == 1 && answer[0] == 1 }
	s.askAll(s.others(s.nodesOf(e)), eventService, e.encode(), heard, func() { done(wanted) })
}

// nodesOf are the nodes on which an event may be for someone.
func (s *Server) nodesOf(e event) (nodes []int) {
	host := s.hostName(e.source.toWorld())
	for name, n := range s.spaces {
		switch {
		case e.to == rangeLocal: // other agents may be on this host
			if at := slices.Index(n.world.Hosts, host); at >= 0 {
				for _, rank := range n.byHost[at] {
					nodes = append(nodes, n.world.Ranks[rank].Node)
				}
			}
		case e.to == rangeNamespace && name == e.source.nspace,
			e.to == rangeUndefined, e.to == rangeSession, e.to == rangeGlobal,
			e.to == rangeCustom && slices.ContainsFunc(e.targets, func(p proc) bool { return p.nspace == name }):
			nodes = append(nodes, n.nodes...)
		}
	}
	return sorted(nodes)
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

func readEvent(d *decoder) event {
	e := event{to: dataRange(d.uint8()), targets: d.procList()}
	d.oneUint8()
	e.code = d.oneStatus()
	e.source = d.oneProc()
	e.infos = d.infoList()
	return e
}

// answerEvent hears of an event from another node.
func (s *Server) answerEvent(_ int, d *decoder, reply func(answer []byte)) {
	if e := readEvent(d); d.err == nil {
		reply([]byte{bit(s.deliver(e))})
	}
}
