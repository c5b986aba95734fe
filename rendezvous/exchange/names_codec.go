package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Requests about names and their replies are sequences of numbers (zigzag varints) and strings (a length, then the
// bytes):
//
//	publish    1 and, for each name, space name value owner-world owner-rank lifetime world-size
//	lookup     2 number-of-spaces spaces… number-of-names names… need by-world by-rank wait-in-nanoseconds
//	unpublish  3 the same
//	reply      status and, for each name that was found, the fields of publish
const (
	opPublish = 1 + iota
	opLookup
	opUnpublish
)

// namesService is the head's service that keeps the names.
const namesService = "names"

type nameRequest struct {
	op        int
	published []Name // of opPublish
	query     Query  // of the others
}

// statuses maps the numbers in replies to errors; 0 is success.
var statuses = [...]error{
	1: ErrPublished, 2: ErrNotPublished, 3: ErrNotOwner, 4: ErrTooMany, 5: errBadNameRequest,
	6: ErrTooManyWaits,
}

var errBadNameRequest = errors.New("exchange: cannot read a request about names")

func packNameReply(found []Name, err error) []byte {
	var c coder
	status := 0
	for i, e := range statuses {
		if err != nil && errors.Is(err, e) {
			status = i
		}
	}
	number(&c, &status)
	c.names(&found)
	return c.b
}

func readNameReply(reply []byte) (found []Name, _ error) {
	c := coder{b: reply, reads: true}
	var status int
	number(&c, &status)
	c.names(&found)
	switch {
	case c.bad || status < 0:
		return nil, errors.New("exchange: cannot read a reply about names")
	case status >= len(statuses):
		return nil, fmt.Errorf("exchange: names: error %d", status)
	}
	return found, statuses[status]
}

// coder appends items to b or, if reads is set, takes them from it. After something unreadable bad is set, and items
// are zero.
type coder struct {
	b          []byte
	reads, bad bool
}

func (c *coder) fail() { c.b, c.bad = nil, true }

func number[T ~int | ~int64 | ~uint8](c *coder, n *T) {
	if !c.reads {
		c.b = binary.AppendVarint(c.b, int64(*n))
		return
	}
	read, size := binary.Varint(c.b)
	if size <= 0 {
		c.fail()
		return
	}
	*n, c.b = T(read), c.b[size:]
}

func text[T ~string | ~[]byte](c *coder, s *T) {
	size := len(*s)
	number(c, &size)
	switch {
	case !c.reads:
		c.b = append(c.b, *s...)
	case size < 0 || size > len(c.b):
		c.fail()
	default:
		*s, c.b = T(string(c.b[:size])), c.b[size:]
	}
}

// texts codes a list of at most limit strings.
func (c *coder) texts(list *[]string, limit int) {
	n := len(*list)
	number(c, &n)
	if n < 0 || n > limit {
		c.fail()
		return
	}
	if c.reads {
		*list = make([]string, n)
	}
	for i := range *list {
		text(c, &(*list)[i])
	}
}

// names codes names up to the end of the message.
func (c *coder) names(names *[]Name) {
	for i := 0; i < len(*names) || c.reads && len(c.b) > 0; i++ {
		if c.reads {
			*names = append(*names, Name{})
		}
		n := &(*names)[i]
		text(c, &n.Space)
		text(c, &n.Name)
		text(c, &n.Value)
		text(c, &n.Owner.World)
		number(c, &n.Owner.Rank)
		number(c, &n.Lifetime)
		number(c, &n.WorldSize)
	}
}

func (c *coder) request(r *nameRequest) {
	number(c, &r.op)
	if r.op == opPublish {
		c.names(&r.published)
		return
	}
	q := &r.query
	c.texts(&q.Spaces, maxSpaces)
	c.texts(&q.Names, maxLookupNames)
	number(c, &q.Need)
	text(c, &q.By.World)
	number(c, &q.By.Rank)
	number(c, &q.Wait)
}
