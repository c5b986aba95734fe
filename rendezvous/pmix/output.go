package pmix

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"gorun/rendezvous/world"
)

// IOF PULL is PMIx_IOF_pull: a rank has the output of others sent to itself, too.
//
//	IOF PULL    procs infos group{uint16 channels} group{size handler}    answer: status, group{size number}
//	IOF DEREG   infos group{size number}                                  answer: status
//	output      a frame with tagOutput: group{proc source} group{uint16 channel} group{size handler}
//	            infos group{byte object}; it has no answer
//
// The same in PMIx 3.2 to 6.1. As under prterun, nobody gets its own output, and who pulls first gets
// what had been kept until then. Attributes, by which prterun's tools write output to files, are ignored.

const (
	// tagOutput is the tag of output (PMIX_PTL_TAG_IOF).
	tagOutput = 2
	// maxPulls is how many pulls a server keeps, those of other nodes' ranks included.
	maxPulls = 1 << 10
	// maxPulled is how many bytes of output may be on their way to one who pulls. What comes when there are more is
	// left out: ranks that print wait for nobody who pulls.
	maxPulled = 1 << 20
	// maxKept is how many bytes of output are kept for who pulls later; what goes is the oldest.
	maxKept = 64 << 10
	// outputCost is what a piece of output takes besides, in bytes.
	outputCost = 128
)

// piece is output of a rank. The channel is 2 for its standard output and 4 for its standard error, as a pull's
// channels have them in one number.
type piece struct {
	source  world.Proc
	channel uint16
	text    []byte
}

func (p piece) size() int { return len(p.text) + outputCost }

// outputs are who pulls output of this node's ranks, or pulls by them, and the last output that nobody has pulled.
type outputs struct {
	pulls map[pullID]*pull
	last  int // the number of the last pull
	kept  []piece
	bytes int // in kept
}

// pullID is a pull: the number is that of the node where its client is.
type pullID struct{ node, number int }

// pull is what a client gets.
type pull struct {
	by       world.Proc
	channels uint16
	of       []world.Proc
	// conn and handler are the client's, who is here; nil: it is on another node.
	conn    *conn
	handler uint64
	// underway are the bytes on their way to its node. lost: some were left out since the last that were not.
	underway int
	lost     bool
	// told: the client was told that it loses output.
	told bool
}

func (p *pull) wants(o piece) bool {
	return p.channels&o.channel != 0 && o.source != p.by && slices.ContainsFunc(p.of, func(of world.Proc) bool {
		return of.World == o.source.World && (of.Rank == world.AllRanks || of.Rank == o.source.Rank)
	})
}

// pull serves IOF PULL. It is answered once the nodes of all ranks that are pulled from know.
func (s *Server) pull(q *request, d *decoder) func() status {
	procs := d.procList()
	d.infoList()
	d.one()
	p := &pull{by: q.who, channels: d.uint16(), conn: q.conn}
	d.one()
	p.handler = d.integer()
	return func() status {
		var ok bool
		if p.of, ok = s.named(q, procs); !ok {
			return statusNotFound
		}
		s.outputs.last++
		id := pullID{s.cfg.Node, s.outputs.last}
		if !s.addPull(id, p) {
			return statusOutOfResource
		}
		s.tellPull(id, p, func() {
			var e encoder
			e.oneStatus(statusSuccess)
			e.oneSize(id.number)
			q.reply(e.b)
			s.passKept(id, p)
		})
		return replied
	}
}

// stopPull serves IOF DEREG.
func (s *Server) stopPull(q *request, d *decoder) func() status {
	d.infoList()
	d.one()
	id := pullID{s.cfg.Node, int(d.integer())}
	return func() status {
		p := s.outputs.pulls[id]
		if p == nil || p.conn != q.conn {
			return statusNotFound
		}
		s.endPull(id, p)
		return statusSuccess
	}
}

// endPulls is for a client that has finalized, or is gone.
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
	if s.outputs.pulls == nil {
		s.outputs.pulls = map[pullID]*pull{}
	}
	s.outputs.pulls[id] = p
	return true
}

func (s *Server) endPull(id pullID, p *pull) {
	delete(s.outputs.pulls, id)
	p.channels = 0
	s.tellPull(id, p, func() {})
}

// pullService tells another node of a pull; without channels it is over.
//
//	question: number | who pulls | channels | processes
const pullService = "pmix.pull"

// tellPull tells the other nodes that have ranks which are pulled from.
func (s *Server) tellPull(id pullID, p *pull, done func()) {
	var e encoder
	e.uint64(uint64(id.number))
	e.proc(fromWorld(p.by))
	e.uint16(p.channels)
	e.procList(fromWorlds(p.of))
	s.askAll(s.others(s.nodesOfRanks(p.of)), pullService, e.b, func(int, []byte, error) {}, done)
}

func (s *Server) answerPull(from int, d *decoder, reply func(answer []byte)) {
	id := pullID{from, int(d.uint64())}
	p := &pull{by: d.proc().toWorld(), channels: d.uint16()}
	procs := d.procList()
	if d.err != nil {
		return
	}
	delete(s.outputs.pulls, id)
	var known bool
	if p.of, known = s.canonical(procs); known && p.channels != 0 && s.addPull(id, p) {
		s.passKept(id, p)
	}
	reply(nil)
}

// Output hears what a rank of this node has written to its standard output (1) or its standard error (2), and keeps
// nothing of b. It does not wait.
func (s *Server) Output(of world.Proc, stream int, b []byte) {
	o := piece{of, 1 << stream, b}
	s.lock()
	defer s.unlock()
	pulled := false
	for id, p := range s.outputs.pulls {
		if p.wants(o) {
			s.pass(id, p, o)
			pulled = true
		}
	}
	if !pulled {
		s.outputs.keep(o)
	}
}

// keep keeps output for who pulls later.
func (x *outputs) keep(o piece) {
	o.text = bytes.Clone(o.text[max(0, len(o.text)-maxKept/2):])
	x.kept = append(x.kept, o)
	x.bytes += o.size()
	for x.bytes > maxKept {
		x.bytes -= x.kept[0].size()
		x.kept = slices.Delete(x.kept, 0, 1)
	}
}

// drop forgets what was kept and is some piece.
func (x *outputs) drop(is func(piece) bool) {
	x.kept = slices.DeleteFunc(x.kept, func(o piece) bool {
		gone := is(o)
		if gone {
			x.bytes -= o.size()
		}
		return gone
	})
}

// passKept passes what was kept to the first who pulls it.
func (s *Server) passKept(id pullID, p *pull) {
	s.outputs.drop(func(o piece) bool {
		wanted := p.wants(o)
		if wanted {
			s.pass(id, p, o)
		}
		return wanted
	})
}

// outputService brings output to the node of who pulls it.
//
//	question: number | process | channel | whether some was left out before | text
const outputService = "pmix.output"

// pass passes output to who pulls it, here or on another node.
func (s *Server) pass(id pullID, p *pull, o piece) {
	if p.conn != nil {
		s.passHere(p, o, false)
		return
	}
	if p.underway+o.size() > maxPulled {
		p.lost = true
		return
	}
	p.underway += o.size()
	var e encoder
	e.uint64(uint64(id.number))
	e.proc(fromWorld(o.source))
	e.uint16(o.channel)
	e.uint8(bit(p.lost))
	e.bytes(o.text)
	p.lost = false
	arrived := func(int, []byte, error) { p.underway -= o.size() }
	s.askAll([]int{id.node}, outputService, e.b, arrived, func() {})
}

// passHere sends output to a client.
func (s *Server) passHere(p *pull, o piece, lost bool) {
	var e encoder
	e.oneProc(fromWorld(o.source))
	e.group(1)
	e.uint16(o.channel)
	e.group(1)
	e.size(int(p.handler))
	e.infoList(nil)
	e.oneBytes(o.text)
	sent := p.conn.push(tagOutput, e.b, maxPulled)
	if (lost || !sent) && !p.told {
		p.told = true
		text := fmt.Sprintf("gorun: rank %d reads the output that it pulls by PMIx_IOF_pull too slowly: "+
			"some of it is left out", p.by.Rank)
		s.say(p.by, text)
	}
}

// answerOutput takes output that another node's ranks have written.
func (s *Server) answerOutput(from int, d *decoder, reply func(answer []byte)) {
	id := pullID{s.cfg.Node, int(d.uint64())}
	o := piece{source: d.proc().toWorld(), channel: d.uint16()}
	lost := d.uint8() == 1
	o.text = d.bytes()
	if d.err != nil {
		return
	}
	n, _, known := s.find(o.source)
	p := s.outputs.pulls[id]
	if known && n.world.Ranks[o.source.Rank].Node == from && p != nil && p.wants(o) {
		s.passHere(p, o, lost)
	}
	reply(nil)
}
