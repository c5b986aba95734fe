package pmix

import (
	"slices"

	"gorun/rendezvous/world"
)

// dataRange says which processes get an event, or see a published name.
type dataRange uint8

const (
	rangeUndefined dataRange = 0 // not given: all
	rangeRM        dataRange = 1 // the launcher alone
	rangeLocal     dataRange = 2 // ranks on this host
	rangeNamespace dataRange = 3 // ranks of the same world
	rangeSession   dataRange = 4 // all ranks of the job
	rangeGlobal    dataRange = 5 // all
	rangeCustom    dataRange = 6 // those in keyEventTargets
	rangeProcLocal dataRange = 7 // the process itself
)

const (
	// tagEvent is the tag of events.
	tagEvent = 0
	// keptEvents is how many events are kept for clients that register later.
	keptEvents = 64
	// maxEvent bounds an event, in bytes.
	maxEvent = 64 << 10
	// maxCodes bounds the codes that a client has registered for.
	maxCodes = 1 << 12

	keyEventNotCached  = "pmix.evnocache"
	keyEventNotDefault = "pmix.evnondef"
	keyEventTargets    = "pmix.evrange"
)

// event is a notification for clients that have registered for its code.
type event struct {
	code    status
	source  world.Proc
	to      dataRange
	targets []world.Proc // for rangeCustom
	infos   []info
	alert   bool // from the server, so that the source gets it, too
}

// registerEvents serves REGISTER EVENTS, for events with certain codes or for all.
func (s *Server) registerEvents(q *request, d *decoder) func() status {
	codes := listed(d, d.status)
	d.infoList()
	return func() status {
		if len(q.subscription.codes)+len(codes) > maxCodes {
			return statusOutOfResource
		}
		q.status(statusSuccess)
		added := q.subscription.add(codes)
		for _, e := range s.events {
			if s.reaches(e, q.proc) && added.includes(e) && e.source != q.proc {
				q.push(tagEvent, e.message(), maxUnread)
			}
		}
		return replied
	}
}

// subscription is the codes that a client has registered for.
type subscription struct {
	codes map[status]bool
	all   bool
}

// add adds codes, none for all, and returns those that are new.
func (b *subscription) add(codes []status) subscription {
	added := subscription{codes: map[status]bool{}, all: len(codes) == 0}
	b.all = b.all || added.all
	for _, code := range codes {
		if !b.codes[code] {
			b.codes[code], added.codes[code] = true, true
		}
	}
	return added
}

func (b subscription) includes(e event) bool {
	return b.codes[e.code] || b.all && !isTrue(e.infos, keyEventNotDefault)
}

// deregisterEvents serves DEREGISTER EVENTS: codes in groups of one. It has no reply.
func (s *Server) deregisterEvents(q *request, d *decoder) func() status {
	var codes []status
	for d.more() {
		codes = append(codes, d.oneStatus())
	}
	return func() status {
		for _, code := range codes {
			delete(q.subscription.codes, code)
		}
		q.noReply()
		return replied
	}
}

// notify serves NOTIFY, an event from a rank. The reply comes after those of all nodes, which slows down a rank that
// notifies without end.
func (s *Server) notify(q *request, d *decoder) func() status {
	e := event{code: d.oneStatus(), source: q.proc}
	e.to = dataRange(d.oneUint8())
	e.infos = d.infoList()
	return func() status {
		if q.size > maxEvent {
			return statusOutOfResource
		}
		e.targets = targetsOf(e.infos)
		s.publishEvent(e, func(bool) { q.status(statusSuccess) })
		return replied
	}
}

// targetsOf returns the targets in an event's attributes.
func targetsOf(infos []info) []world.Proc {
	v, ok := find(infos, keyEventTargets)
	if !ok {
		return nil
	}
	if p, ok := v.proc(); ok {
		return []world.Proc{p}
	}
	targets, _ := v.procs()
	return targets
}

// publishEvent delivers an event on all nodes. done is called when they have replied, or never will, with whether a
// rank has registered for its code. Both are called with the lock held.
func (s *Server) publishEvent(e event, done func(handled bool)) {
	handled := s.deliver(e)
	each := func(_ int, reply []byte, _ error) { handled = handled || len(reply) == 1 && reply[0] == 1 }
	s.node.RequestAll(s.others(s.nodesOf(e)), eventService, e.encode(), each, func() { done(handled) })
}

// nodesOf returns the nodes that may have ranks which an event reaches.
func (s *Server) nodesOf(e event) (nodes []int) {
	host := s.hostName(e.source)
	for name, n := range s.spaces {
		switch {
		case e.to == rangeLocal: // other agents may be on this host
			if at := slices.Index(n.Hosts, host); at >= 0 {
				for _, rank := range n.ByHost[at] {
					nodes = append(nodes, n.Ranks[rank].Node)
				}
			}
		case e.to == rangeNamespace && name == e.source.World,
			e.to == rangeUndefined, e.to == rangeSession, e.to == rangeGlobal,
			e.to == rangeCustom && slices.ContainsFunc(e.targets, func(p world.Proc) bool { return p.World == name }):
			nodes = append(nodes, n.Nodes...)
		}
	}
	return sorted(nodes)
}

// deliver pushes an event to the ranks of this node, and keeps it for those that register later. It reports whether one
// of them has registered for its code.
func (s *Server) deliver(e event) (handled bool) {
	if e.to == rangeRM || e.to == rangeProcLocal {
		return false
	}
	message := e.message()
	for c := range s.conns {
		if !s.reaches(e, c.proc) || !c.subscription.includes(e) || c.proc == e.source && !e.alert {
			continue
		}
		handled = handled || c.subscription.codes[e.code]
		c.push(tagEvent, message, maxUnread)
	}
	if !isTrue(e.infos, keyEventNotCached) {
		s.events = append(s.events, e)
		if len(s.events) > keptEvents {
			s.events = slices.Delete(s.events, 0, 1)
		}
	}
	return handled
}

// reaches reports whether an event is for a rank.
func (s *Server) reaches(e event, p world.Proc) bool {
	return e.isFor(p) && (e.to != rangeLocal || s.hostName(e.source) == s.hostName(p))
}

// hostName returns the name of a rank's host.
func (s *Server) hostName(p world.Proc) string {
	n, _, ok := s.find(p)
	if !ok {
		return ""
	}
	return n.Hosts[n.Ranks[p.Rank].Host]
}

// isFor reports whether the range and targets of an event include a rank, without regard to hosts.
func (e event) isFor(p world.Proc) bool {
	switch e.to {
	case rangeNamespace:
		return e.source.World == p.World
	case rangeCustom:
		return slices.ContainsFunc(e.targets, func(t world.Proc) bool {
			return t.World == p.World && (t.Rank == world.AllRanks || t == p)
		})
	case rangeUndefined, rangeLocal, rangeSession, rangeGlobal:
		return true
	}
	return false
}

// message encodes an event for clients: group {command}, group {code}, group {source}, infos. PMIx's own servers, from
// 4.2 on, end it with group {range}, which no client reads.
func (e event) message() []byte {
	var m encoder
	m.group(1)
	m.uint8(uint8(commandNotify))
	m.oneStatus(e.code)
	m.oneProc(e.source)
	m.infoList(e.infos)
	return m.b
}

// eventService delivers an event on another node. The request is range, targets, and the message for clients; the reply
// is 1 if a rank there has registered for its code, and 0 otherwise.
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

// serveEvent delivers an event from another node.
func (s *Server) serveEvent(from int, d *decoder, reply func(body []byte)) {
	if e := readEvent(d); d.err == nil {
		reply([]byte{bit(s.serves(from, e.source) && s.deliver(e))})
	}
}
