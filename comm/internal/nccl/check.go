//go:build cgo

package nccl

import (
	"errors"
	"fmt"
	"slices"

	"gorun/comm/internal/backend"
)

// member is a rank's place in its group.
type member struct{ rank, ranks int }

// check refuses what NCCL would crash on, hang in or not know.
func (m member) check(c *backend.Call) error {
	switch {
	case c.Kind == 0 || c.Kind >= backend.Kinds:
		return fmt.Errorf("%v is no collective", c.Kind)
	case c.Kind == backend.Barrier:
		return nil
	case c.DType >= backend.DTypes:
		return fmt.Errorf("%v: %v is no element type", c.Kind, c.DType)
	case c.Count < 0 || c.RecvCount < 0:
		return fmt.Errorf("%v: count %d is negative", c.Kind, min(c.Count, c.RecvCount))
	}
	for _, check := range []func(*backend.Call) error{m.checkOp, m.checkRanks, m.checkCounts, m.checkMemory} {
		if err := check(c); err != nil {
			return fmt.Errorf("%v: %w", c.Kind, err)
		}
	}
	return nil
}

func (m member) checkOp(c *backend.Call) error {
	switch c.Kind {
	case backend.AllReduce, backend.Reduce, backend.ReduceScatter, backend.ReduceScatterV:
	default:
		return nil
	}
	if c.Op.Bitwise() {
		return fmt.Errorf("NCCL has no reduction %v: take the cpu back end for it: %w", c.Op, errors.ErrUnsupported)
	}
	if c.Op >= backend.Ops {
		return fmt.Errorf("%v is no reduction", c.Op)
	}
	return nil
}

func (m member) checkRanks(c *backend.Call) error {
	switch c.Kind {
	case backend.Reduce, backend.Broadcast, backend.Gather, backend.GatherV, backend.Scatter, backend.ScatterV:
		return m.has("root", c.Root)
	case backend.Send, backend.Recv:
		if c.Root == m.rank {
			return fmt.Errorf("rank %d with itself would wait for ever: SendRecv can do it", m.rank)
		}
		return m.has("peer", c.Root)
	case backend.SendRecv:
		if err := m.has("peer", c.Root); err != nil {
			return err
		}
		if c.Root == m.rank && c.From == m.rank && c.Count != c.RecvCount {
			return fmt.Errorf("rank %d sends itself %d elements and wants %d", m.rank, c.Count, c.RecvCount)
		}
		if (c.Root == m.rank) != (c.From == m.rank) {
			return fmt.Errorf("rank %d sends to %d and receives from %d: with itself it must do both", m.rank, c.Root, c.From)
		}
		return m.has("peer", c.From)
	}
	return nil
}

func (m member) has(what string, rank int) error {
	if rank < 0 || rank >= m.ranks {
		return fmt.Errorf("%s %d is not in the group of %d ranks", what, rank, m.ranks)
	}
	return nil
}

// checkCounts looks at the V kinds' numbers.
func (m member) checkCounts(c *backend.Call) error {
	var lists [][]int
	own := func(list []int) error {
		if len(list) == m.ranks && list[m.rank] != c.Count {
			return fmt.Errorf("count %d differs from rank %d's %d in the list of counts", c.Count, m.rank, list[m.rank])
		}
		return nil
	}
	switch c.Kind {
	case backend.AllGatherV, backend.ReduceScatterV:
		lists = [][]int{c.Counts}
	case backend.GatherV, backend.ScatterV:
		if c.Root != m.rank {
			return nil
		}
		lists = [][]int{c.Counts}
	case backend.AllToAllV:
		lists = [][]int{c.SendCounts, c.RecvCounts}
	default:
		return nil
	}
	for _, list := range lists {
		if len(list) != m.ranks {
			return fmt.Errorf("%d counts for %d ranks", len(list), m.ranks)
		}
		if least := slices.Min(list); least < 0 {
			return fmt.Errorf("count %d of rank %d is negative", least, slices.Index(list, least))
		}
	}
	if c.Kind == backend.AllToAllV {
		if sent, wanted := c.SendCounts[m.rank], c.RecvCounts[m.rank]; sent != wanted {
			return fmt.Errorf("rank %d sends itself %d elements and wants %d", m.rank, sent, wanted)
		}
		return nil
	}
	return own(c.Counts)
}

// checkMemory asks that no buffer with elements is missing.
func (m member) checkMemory(c *backend.Call) error {
	elements := m.extent(c)
	if elements.send > 0 && c.Send == nil {
		return fmt.Errorf("%d elements to send and no buffer", elements.send)
	}
	if elements.recv > 0 && c.Recv == nil {
		return fmt.Errorf("%d elements to receive and no buffer", elements.recv)
	}
	return nil
}

// extent is how many elements the call's buffers have on one rank; 0 for one without a meaning there.
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

// inPlace reports whether both buffers count on this rank and are the same.
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
