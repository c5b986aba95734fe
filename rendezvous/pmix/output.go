package pmix

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"gorun/rendezvous/world"
)

// IOF PULL is PMIx_IOF_pull: a rank gets a copy of the output of others.
//
//	IOF PULL    procs infos group{uint16 channels} group{size handler}    reply: status, group{size number}
//	IOF DEREG   infos group{size number}                                  reply: status
//	output      a frame with tagOutput: group{proc source} group{uint16 channel} group{size handler}
//	            infos group{byte object}; it has no reply
//
// It is the same in PMIx 3.2 to 6.1. As under prterun, a rank does not get its own output, and the first pull of output
// gets what was kept until then. Attributes that make prterun's tools write output to files are ignored.

const (
	// tagOutput is the tag of output (PMIX_PTL_TAG_IOF).
	tagOutput = 2
	// maxPulls bounds the pulls of a server, including those by ranks of other nodes.
	maxPulls = 1 << 10
	// maxPulled bounds the bytes of output on their way to one pull. More is dropped: a rank that prints never waits for
	// one that pulls.
	maxPulled = 1 << 20
	// maxKept bounds the output that is kept for later pulls, in bytes. The oldest is dropped.
	maxKept = 64 << 10
	// outputCost is the overhead of a piece of output, in bytes.
	outputCost = 128
)

// piece is a piece of output of a rank. The channel is 2 for standard output and 4 for standard error; a pull combines
// them.
type piece struct {
	source  world.Proc
	channel uint16
	text    []byte
}

func (p piece) size() int { return len(p.text) + outputCost }

// outputs are the pulls by ranks of this node or of their output, and the last output that no pull wanted.
type outputs struct {
	pulls      map[pullID]*pull
	lastNumber int // of a pull by a rank of this node
	kept       []piece
	bytes      int // in kept
}

// pullID is the node of the client, and a number that is unique there.
type pullID struct{ node, number int }

// pull is a subscription to output.
type pull struct {
	by       world.Proc
	channels uint16
	of       []world.Proc
	conn     *conn // the client's; nil on the other nodes
	handler  uint64
	inFlight int  // bytes on their way to the client's node
	lost     bool // some were dropped since
	reported bool // the user knows that output was dropped
}

func (p *pull) includes(o piece) bool {
	return p.channels&o.channel != 0 && o.source != p.by && slices.ContainsFunc(p.of, func(of world.Proc) bool {
		return of.World == o.source.World && (of.Rank == world.AllRanks || of.Rank == o.source.Rank)
	})
}

// pull serves IOF PULL. The reply comes when the nodes of all ranks of the pull know of it.
func (s *Server) pull(q *request, d *decoder) func() status {
	procs := d.procList()
	d.infoList()
	d.one()
	p := &pull{by: q.proc, channels: d.uint16(), conn: q.conn}
	d.one()
	p.handler = d.integer()
	return func() status {
		var ok bool
		if p.of, ok = s.resolve(q, procs); !ok {
			return statusNotFound
		}
		s.outputs.lastNumber++
		id := pullID{s.number(), s.outputs.lastNumber}
		if !s.addPull(id, p) {
			return statusOutOfResource
		}
		s.announcePull(id, p, func() {
			var e encoder
			e.oneStatus(statusSuccess)
			e.oneSize(id.number)
			q.reply(e.b)
			s.deliverKept(id, p)
		})
		return replied
	}
}

// stopPull serves IOF DEREG.
func (s *Server) stopPull(q *request, d *decoder) func() status {
	d.infoList()
	d.one()
	id := pullID{s.number(), int(d.integer())}
	return func() status {
		p := s.outputs.pulls[id]
		if p == nil || p.conn != q.conn {
			return statusNotFound
		}
		s.endPull(id, p)
		return statusSuccess
	}
}

// endPulls ends the pulls of a client.
func (s *Server) endPulls(c *conn) {
	for id, p := range maps.Clone(s.outputs.pulls) {
		if p.conn == c {
			s.endPull(id, p)
		}
	}
}

func (s *Server) addPull(id pullID, p *pull) bool {
	if len(s.outputs.pulls) >= maxPulls {
		return false
	}
	s.outputs.pulls[id] = p
	return true
}

func (s *Server) endPull(id pullID, p *pull) {
	delete(s.outputs.pulls, id)
	p.channels = 0
	s.announcePull(id, p, func() {})
}

// pullService begins a pull on another node or, without channels, ends it.
//
//	request: number | client | channels | processes
const pullService = "pmix.pull"

// announcePull sends a pull to the other nodes of its ranks.
func (s *Server) announcePull(id pullID, p *pull, done func()) {
	var e encoder
	e.uint64(uint64(id.number))
	e.proc(p.by)
	e.uint16(p.channels)
	e.procList(p.of)
	s.node.RequestAll(s.others(s.nodesOfRanks(p.of)), pullService, e.b, func(int, []byte, error) {}, done)
}

func (s *Server) servePull(from int, d *decoder, reply func(body []byte)) {
	id := pullID{from, int(d.uint64())}
	p := &pull{by: d.proc(), channels: d.uint16()}
	procs := d.procList()
	if d.err != nil {
		return
	}
	delete(s.outputs.pulls, id)
	var known bool
	if p.of, known = s.canonical(procs); known && p.channels != 0 && s.addPull(id, p) {
		s.deliverKept(id, p)
	}
	reply(nil)
}

// Output passes on what a rank of this node has written to its standard output (1) or standard error (2). It does not
// wait or keep b.
func (s *Server) Output(of world.Proc, stream int, b []byte) {
	o := piece{of, 1 << stream, b}
	s.node.Lock()
	defer s.node.Unlock()
	pulled := false
	for id, p := range s.outputs.pulls {
		if p.includes(o) {
			s.deliverOutput(id, p, o)
			pulled = true
		}
	}
	if !pulled {
		s.outputs.keep(o)
	}
}

// keep keeps output for a later pull.
func (x *outputs) keep(o piece) {
	o.text = bytes.Clone(o.text[max(0, len(o.text)-maxKept/2):])
	x.kept = append(x.kept, o)
	x.bytes += o.size()
	for x.bytes > maxKept {
		x.bytes -= x.kept[0].size()
		x.kept = slices.Delete(x.kept, 0, 1)
	}
}

// drop drops the kept pieces for which match returns true.
func (x *outputs) drop(match func(piece) bool) {
	x.kept = slices.DeleteFunc(x.kept, func(o piece) bool {
		matches := match(o)
		if matches {
			x.bytes -= o.size()
		}
		return matches
	})
}

// deliverKept moves kept output to a pull.
func (s *Server) deliverKept(id pullID, p *pull) {
	s.outputs.drop(func(o piece) bool {
		included := p.includes(o)
		if included {
			s.deliverOutput(id, p, o)
		}
		return included
	})
}

// outputService brings output to the node of a pull's client.
//
//	request: number | process | channel | whether some was dropped before | text
const outputService = "pmix.output"

// deliverOutput sends output to the client of a pull, here or on another node.
func (s *Server) deliverOutput(id pullID, p *pull, o piece) {
	if p.conn != nil {
		s.deliverLocal(p, o, false)
		return
	}
	if p.inFlight+o.size() > maxPulled {
		p.lost = true
		return
	}
	p.inFlight += o.size()
	var e encoder
	e.uint64(uint64(id.number))
	e.proc(o.source)
	e.uint16(o.channel)
	e.uint8(bit(p.lost))
	e.bytes(o.text)
	p.lost = false
	s.node.Request(id.node, outputService, e.b, func([]byte, error) { p.inFlight -= o.size() })
}

// deliverLocal sends output to a client of this node.
func (s *Server) deliverLocal(p *pull, o piece, lost bool) {
	var e encoder
	e.oneProc(o.source)
	e.group(1)
	e.uint16(o.channel)
	e.group(1)
	e.size(int(p.handler))
	e.infoList(nil)
	e.oneBytes(o.text)
	sent := p.conn.push(tagOutput, e.b, maxPulled)
	if (lost || !sent) && !p.reported {
		p.reported = true
		text := fmt.Sprintf("gorun: rank %d reads the output of PMIx_IOF_pull too slowly: gorun dropped some of it",
			p.by.Rank)
		s.node.Say(p.by, text)
	}
}

// serveOutput delivers output of another node's ranks.
func (s *Server) serveOutput(from int, d *decoder, reply func(body []byte)) {
	id := pullID{s.number(), int(d.uint64())}
	o := piece{source: d.proc(), channel: d.uint16()}
	lost := d.uint8() == 1
	o.text = d.bytes()
	if d.err != nil {
		return
	}
	p := s.outputs.pulls[id]
	if s.serves(from, o.source) && p != nil && p.includes(o) {
		s.deliverLocal(p, o, lost)
	}
	reply(nil)
}
