package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gorun/rendezvous/world"
)

// What is asked of the names, and answered, is a list of numbers (zigzag varints) and texts
// (each after its length, a number):
//
//	publish    1 space name value owner-world owner-rank keep world-size
//	lookup     2 number-of-spaces spaces… number-of-names names… need by-world by-rank wait-in-nanoseconds
//	unpublish  3 space name owner-world owner-rank
//	           4 number-of-spaces spaces… owner-world owner-rank
//	answer     status and, for each name that was found, space name value owner-world owner-rank keep world-size
const (
	opPublish      = 1
	opLookup       = 2
	opUnpublish    = 3
	opUnpublishAll = 4
)

// statuses are the errors of names by the number that stands for each; 0 is none.
var statuses = [...]error{
	1: ErrPublished, 2: ErrNotPublished, 3: ErrNotOwner, 4: ErrTooMany, 5: errBadNameBody,
	6: ErrTooManyWaits,
}

var errBadNameBody = errors.New("exchange: a question about names that cannot be read")

func packPublish(n Published) []byte {
	p := packer{}
	p.number(opPublish)
	p.published(&n)
	return p.b
}

func packLookup(w Wanted) []byte {
	p := packer{}
	p.number(opLookup)
	p.texts(w.Spaces)
	p.texts(w.Names)
	p.number(int64(w.Need))
	p.proc(w.By)
	p.number(int64(w.Wait))
	return p.b
}

func packUnpublish(space, name string, owner world.Proc) []byte {
	p := packer{}
	p.number(opUnpublish)
	p.text(space)
	p.text(name)
	p.proc(owner)
	return p.b
}

func packUnpublishAll(spaces []string, owner world.Proc) []byte {
	p := packer{}
	p.number(opUnpublishAll)
	p.texts(spaces)
	p.proc(owner)
	return p.b
}

func packNameAnswer(found []*Published, err error) []byte {
	p := packer{}
	status := 0
	for i, e := range statuses {
		if err != nil && errors.Is(err, e) {
			status = i
		}
	}
	p.number(int64(status))
	for _, n := range found {
		p.published(n)
	}
	return p.b
}

// readNameAnswer gives what was published, if that was asked for.
func readNameAnswer(answer []byte, err error) (found []Published, _ error) {
	if err != nil {
		return nil, err
	}
	u := unpacker{b: answer}
	status := u.number()
	for len(u.b) > 0 {
		found = append(found, u.published())
	}
	switch {
	case u.bad || status < 0:
		return nil, errors.New("exchange: an answer about names that cannot be read")
	case status >= int64(len(statuses)):
		return nil, fmt.Errorf("exchange: names: error %d", status)
	}
	return found, statuses[status]
}

type packer struct{ b []byte }

func (p *packer) number(n int64) { p.b = binary.AppendVarint(p.b, n) }

func (p *packer) text(s string) {
	p.number(int64(len(s)))
	p.b = append(p.b, s...)
}

func (p *packer) texts(list []string) {
	p.number(int64(len(list)))
	for _, s := range list {
		p.text(s)
	}
}

func (p *packer) proc(q world.Proc) {
	p.text(q.World)
	p.number(int64(q.Rank))
}

func (p *packer) published(n *Published) {
	p.text(n.Space)
	p.text(n.Name)
	p.text(string(n.Value))
	p.proc(n.Owner)
	p.number(int64(n.Keep))
	p.number(int64(n.WorldSize))
}

// unpacker reads what a packer wrote; bad is set once something cannot be read.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) number() int64 {
	n, size := binary.Varint(u.b)
	if size <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[size:]
	return n
}

func (u *unpacker) text() string {
	size := u.number()
	if size < 0 || size > int64(len(u.b)) {
		u.b, u.bad = nil, true
		return ""
	}
	s := string(u.b[:size])
	u.b = u.b[size:]
	return s
}

// texts is a list; one that is longer than it may be cannot be read.
func (u *unpacker) texts(most int64) (list []string) {
	n := u.number()
	if n < 0 || n > most {
		u.b, u.bad = nil, true
		return nil
	}
	for range n {
		list = append(list, u.text())
	}
	return list
}

func (u *unpacker) proc() world.Proc { return world.Proc{World: u.text(), Rank: int(u.number())} }

func (u *unpacker) published() Published {
	return Published{
		Space: u.text(), Name: u.text(), Value: []byte(u.text()), Owner: u.proc(),
		Keep: Keep(u.number()), WorldSize: int(u.number()),
	}
}

func (u *unpacker) wanted() Wanted {
	w := Wanted{Spaces: u.texts(maxSpaces), Names: u.texts(maxWanted), Need: int(u.number()), By: u.proc()}
	w.Wait = time.Duration(u.number())
	return w
}
