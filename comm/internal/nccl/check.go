//go:build cgo

package nccl

import (
	"fmt"

	"gorun/comm/internal/backend"
)

// member identifies a rank in its group.
type member struct{ rank, ranks int }

// check rejects messages of a rank to itself for which NCCL would hang or crash. comm has checked everything else.
func (m member) check(c *backend.Call) error {
	toSelf, fromSelf := c.Root == m.rank, c.From == m.rank
	switch c.Kind {
	case backend.Send, backend.Recv:
		if toSelf {
			return fmt.Errorf("%v: rank %d with itself would wait for ever: SendRecv can do it", c.Kind, m.rank)
		}
	case backend.SendRecv:
		if toSelf && fromSelf && c.Count != c.RecvCount {
			return fmt.Errorf("%v: rank %d sends itself %d elements and wants %d", c.Kind, m.rank, c.Count, c.RecvCount)
		}
		if toSelf != fromSelf {
			return fmt.Errorf("%v: rank %d sends to %d and receives from %d: with itself it must do both", c.Kind, m.rank,
				c.Root, c.From)
		}
	}
	return nil
}

// extent contains the number of elements in the call's buffers on one rank; 0 for an unused buffer.
type extent struct{ send, recv int }

func (m member) extent(c *backend.Call) extent {
	root := c.Root == m.rank
	only := func(there bool, n int) int {
		if there {
			return n
		}
		return 0
	}
	switch c.Kind {
	case backend.AllReduce:
		return extent{c.Count, c.Count}
	case backend.Reduce:
		return extent{c.Count, only(root, c.Count)}
	case backend.Broadcast:
		return extent{0, c.Count}
	case backend.AllGather:
		return extent{c.Count, c.Count * m.ranks}
	case backend.AllGatherV:
		return extent{c.Count, sum(c.Counts)}
	case backend.ReduceScatter, backend.AllToAll:
		e := extent{c.Count * m.ranks, c.Count}
		if c.Kind == backend.AllToAll {
			e.recv = e.send
		}
		return e
	case backend.ReduceScatterV:
		return extent{sum(c.Counts), c.Count}
	case backend.Gather:
		return extent{c.Count, only(root, c.Count*m.ranks)}
	case backend.GatherV:
		return extent{c.Count, only(root, sum(c.Counts))}
	case backend.Scatter:
		return extent{only(root, c.Count*m.ranks), c.Count}
	case backend.ScatterV:
		return extent{only(root, sum(c.Counts)), c.Count}
	case backend.AllToAllV:
		return extent{sum(c.SendCounts), sum(c.RecvCounts)}
	case backend.Send:
		return extent{c.Count, 0}
	case backend.Recv:
		return extent{0, c.Count}
	case backend.SendRecv:
		return extent{c.Count, c.RecvCount}
	}
	return extent{}
}

// inPlace reports whether this rank uses both buffers and they are the same.
func (m member) inPlace(c *backend.Call) bool {
	e := m.extent(c)
	return c.Send == c.Recv && e.send > 0 && e.recv > 0
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
