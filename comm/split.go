package comm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Split makes a group of all ranks that give the same color, ranked by key and, where keys are equal, by their rank here. Every rank of g calls it; one
// with a negative color gets nil. The new group is independent of g, which stays, and is closed by itself.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	mine := []int64{int64(color), int64(key)}
	all := make([]int64, 2*g.size)
	if err := AllGather(ctx, g, mine, all); err != nil {
		return nil, fmt.Errorf("Split: %w", err)
	}
	members := membersOf(all, color)
	rank := slices.Index(members, g.rank)
	m := g.meeting.split(color, rank, len(members))
	if color < 0 {
		return nil, nil
	}
	part := &Group{rank: rank, size: len(members), timeout: g.timeout, meeting: m, key: g.key, near: g.near}
	back, err := open(ctx, g.back.Name(), part, -1, m.exchange)
	if err != nil {
		return nil, fmt.Errorf("comm: Split: %w", err)
	}
	part.back = back
	return part, nil
}

// membersOf lists the ranks of a color in their new order, given every rank's color and key.
func membersOf(all []int64, color int) (members []int) {
	for rank := range len(all) / 2 {
		if all[2*rank] == int64(color) {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	return members
}
