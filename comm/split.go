package comm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gorun/comm/internal/backend"
	"gorun/comm/internal/cpu"
)

// Split creates a group of all ranks with the same color. They are ranked by key, and by their rank in g if keys are
// equal. Every rank of g must call Split. A rank with a negative color gets nil, and calls on it fail.
//
// Errors in the new group name ranks by both numbers, in the group and in the job. The new group is independent of g,
// which stays usable. Close both.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	if g == nil {
		return nil, noGroup("Split")
	}
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
	exchange := m.exchange
	if g.back.Name() == "cpu" {
		exchange = g.relayed(members, rank)
	}
	ctx, cancel := within(ctx, g.timeout)
	defer cancel()
	part := &Group{
		rank: rank, size: len(members), timeout: g.timeout, device: g.device, meeting: m, key: g.key, near: g.near,
		host: g.host, job: g.jobRanks(members),
	}
	back, err := open(ctx, g.back.Name(), part, exchange)
	if err != nil {
		return nil, fmt.Errorf("comm: Split: %w", err)
	}
	part.back = back
	part.onCPUs, _ = any(back).(*cpu.Backend)
	return part, nil
}

// jobRanks returns the job's numbers of members, which are ranks of g. It returns nil if they are the same in the new
// group.
func (g *Group) jobRanks(members []int) []int {
	job, same := make([]int, len(members)), true
	for i, member := range members {
		job[i] = g.jobRank(member)
		same = same && job[i] == i
	}
	if same {
		return nil
	}
	return job
}

// membersOf returns the ranks of a color in their new order. all contains the color and the key of every rank.
func membersOf(all []int64, color int) (members []int) {
	for rank := range len(all) / 2 {
		if all[2*rank] == int64(color) {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	return members
}

// relayed returns a [backend.Exchange] that sends messages in g between the members, so that lost and late ranks are
// detected. It needs no store: the process that serves the store may have closed its group. rank is this rank's index
// in members.
func (g *Group) relayed(members []int, rank int) backend.Exchange {
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		if rank != 0 {
			if err := g.sendBlob(ctx, blob, members[0]); err != nil {
				return nil, err
			}
			packed, err := g.receiveBlob(ctx, members[0])
			if err != nil {
				return nil, err
			}
			return unpack(packed, len(members))
		}
		blobs := [][]byte{blob}
		for _, member := range members[1:] {
			blob, err := g.receiveBlob(ctx, member)
			if err != nil {
				return nil, err
			}
			blobs = append(blobs, blob)
		}
		for _, member := range members[1:] {
			if err := g.sendBlob(ctx, pack(blobs), member); err != nil {
				return nil, err
			}
		}
		return blobs, nil
	}
}

// sendBlob sends the length, then the bytes.
func (g *Group) sendBlob(ctx context.Context, blob []byte, to int) error {
	if err := Send(ctx, g, []int64{int64(len(blob))}, to); err != nil {
		return err
	}
	return Send(ctx, g, blob, to)
}

func (g *Group) receiveBlob(ctx context.Context, from int) ([]byte, error) {
	size := make([]int64, 1)
	if err := Recv(ctx, g, size, from); err != nil {
		return nil, err
	}
	blob := make([]byte, size[0])
	return blob, Recv(ctx, g, blob, from)
}
