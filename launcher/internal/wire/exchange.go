package wire

import (
	"encoding/binary"
	"unsafe"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// Exchange carries a message of the exchange plane, either way.
type Exchange struct {
	// Attempt is the one whose plane it is, as Start counts them: what is still under way
	// of an older one is nobody's.
	Attempt int
	Message exchange.Message
}

func (*Exchange) Type() Type { return TypeExchange }

func (m *Exchange) fields(c *coder) {
	number(c, 1, &m.Attempt)
	c.part(2, (*exchanged)(&m.Message))
}

// exchanged is exchange's message, which knows nothing of frames.
type exchanged exchange.Message

func (m *exchanged) fields(c *coder) {
	number(c, 1, &m.Kind)
	text(c, 2, &m.ID)
	c.packed(3, &m.Nodes)
	c.members(4, &m.Members)
	c.blobs(5, &m.Blobs)
	number(c, 6, &m.First)
	c.flag(7, &m.Last)
	number(c, 8, &m.Number)
	number(c, 9, &m.From)
	number(c, 10, &m.To)
	text(c, 11, &m.Service)
	text(c, 12, &m.Error)
	c.flag(13, &m.Came)
	c.flag(14, &m.Lost)
}

// maxList bounds lists of which an entry may take less in a frame than in memory. It is as
// many ranks as exchange.Hub has come together.
const maxList = 1 << 20

// blobs is a list of bytes, in which empty ones count.
func (c *coder) blobs(num int, p *[][]byte) {
	if c.is(num, sized) {
		if len(*p) >= maxList {
			c.err = errBroken
		}
		if c.err != nil || !c.take(int(unsafe.Sizeof(c.bytes))+len(c.bytes)) {
			return
		}
		*p = append(*p, append([]byte(nil), c.bytes...))
	}
	if !c.reading {
		for _, b := range *p {
			writeText(c, num, b)
		}
	}
}

// packed is a list of numbers that mostly ascend: the differences, one after the other.
func (c *coder) packed(num int, p *[]int) {
	switch {
	case c.is(num, sized):
		last := 0
		for b := c.bytes; len(b) > 0; {
			n, size := binary.Varint(b)
			if size <= 0 || len(*p) >= maxList {
				c.err = errBroken
			}
			if c.err != nil || !c.take(int(unsafe.Sizeof(last))) {
				return
			}
			b, last = b[size:], last+int(n)
			*p = append(*p, last)
		}
	case !c.reading && len(*p) > 0:
		var b []byte
		last := 0
		for _, n := range *p {
			b, last = binary.AppendVarint(b, int64(n-last)), n
		}
		writeText(c, num, b)
	}
}

// ranksOf are some ranks of one world.
type ranksOf struct {
	world string
	ranks []int
}

func (r *ranksOf) fields(c *coder) {
	text(c, 1, &r.world)
	c.packed(2, &r.ranks)
}

// members is a list of ranks, of which those of one world mostly stand together.
func (c *coder) members(num int, p *[]world.Proc) {
	if c.is(num, sized) {
		var r ranksOf
		c.part(num, &r)
		if len(*p)+len(r.ranks) > maxList {
			c.err = errBroken
		}
		if c.err != nil || !c.take(len(r.ranks)*int(unsafe.Sizeof(world.Proc{}))) {
			return
		}
		for _, rank := range r.ranks {
			*p = append(*p, world.Proc{World: r.world, Rank: rank})
		}
	}
	if c.reading {
		return
	}
	for at := 0; at < len(*p); {
		r := ranksOf{world: (*p)[at].World}
		for ; at < len(*p) && (*p)[at].World == r.world; at++ {
			r.ranks = append(r.ranks, (*p)[at].Rank)
		}
		c.part(num, &r)
	}
}
