package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What is asked of the names, and answered, is a list of numbers (zigzag varints) and texts
// (each after its length, a number):
//
//	publish    1 and, for each name, space name value owner-world owner-rank keep world-size
//	lookup     2 number-of-spaces spaces… number-of-names names… need by-world by-rank wait-in-nanoseconds
//	unpublish  3 the same
//	answer     status and, for each name that was found, what publish has
const (
	opPublish = 1 + iota
	opLookup
	opUnpublish
)

// nameQuestion is what a node asks: names to be published, or else what is wanted.
type nameQuestion struct {
	op        int
	published []Published
	wanted    Wanted
}

// statuses are the errors of names by the number that stands for each; 0 is none.
var statuses = [...]error{
	1: ErrPublished, 2: ErrNotPublished, 3: ErrNotOwner, 4: ErrTooMany, 5: errBadNameBody,
	6: ErrTooManyWaits,
}

var errBadNameBody = errors.New("exchange: a question about names that cannot be read")

// ask has the head answer a question about names.
func (q nameQuestion) ask(p Plane, done func(found []Published, err error)) {
	var c coder
	c.question(&q)
	p.Ask(Head, namesService, c.b, func(answer []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(readNameAnswer(answer))
	})
}

func packNameAnswer(found []Published, err error) []byte {
	var c coder
	status := 0
	for i, e := range statuses {
		if err != nil && errors.Is(err, e) {
			status = i
		}
	}
	number(&c, &status)
	c.published(&found)
	return c.b
}

// readNameAnswer gives what was published, if that was asked for.
func readNameAnswer(answer []byte) (found []Published, _ error) {
	c := coder{b: answer, reads: true}
	var status int
	number(&c, &status)
	c.published(&found)
	switch {
	case c.bad || status < 0:
		return nil, errors.New("exchange: an answer about names that cannot be read")
	case status >= len(statuses):
		return nil, fmt.Errorf("exchange: names: error %d", status)
	}
	return found, statuses[status]
}

// coder writes items to b, or reads them from it. bad is set once something cannot be read; what is read then is zero.
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

// texts is a list; one that is longer than it may be cannot be read.
func (c *coder) texts(list *[]string, most int) {
	n := len(*list)
	number(c, &n)
	if n < 0 || n > most {
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

// published are names to the end.
func (c *coder) published(names *[]Published) {
	for i := 0; i < len(*names) || c.reads && len(c.b) > 0; i++ {
		if c.reads {
			*names = append(*names, Published{})
		}
		n := &(*names)[i]
		text(c, &n.Space)
		text(c, &n.Name)
		text(c, &n.Value)
		text(c, &n.Owner.World)
		number(c, &n.Owner.Rank)
		number(c, &n.Keep)
		number(c, &n.WorldSize)
	}
}

func (c *coder) question(q *nameQuestion) {
	number(c, &q.op)
	if q.op == opPublish {
		c.published(&q.published)
		return
	}
	w := &q.wanted
	c.texts(&w.Spaces, maxSpaces)
	c.texts(&w.Names, maxWanted)
	number(c, &w.Need)
	text(c, &w.By.World)
	number(c, &w.By.Rank)
	number(c, &w.Wait)
}
