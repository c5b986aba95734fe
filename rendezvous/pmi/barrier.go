package pmi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// barrier is one that ranks of a world enter again and again. The server's lock guards it.
type barrier struct {
	name string // unique in the world
	// members are its ranks, ascending, nil for the whole world. local are those of this node, nodes those of all.
	members, local, nodes []int
	owner                 int // the rank of this node that first named the group, whose usage counts it

	round    int      // how often this node has entered
	sentKeys []string // keys sent with the round in progress, if members is nil
	reported bool     // the launcher knows that it is stuck
	// arrived are the ranks here that wait for others here, crossing those that wait for other nodes, with what to call
	// at the end.
	arrived, crossing map[int]func(error)
}

// newBarrier returns the barrier of some ranks, ascending; nil for the whole world.
func (s *space) newBarrier(name string, members []int) *barrier {
	b := &barrier{name: name, members: members, local: s.Local, nodes: s.Nodes, arrived: map[int]func(error){}}
	if members != nil {
		b.local, b.nodes = nil, nil
		for _, rank := range members {
			if s.IsLocal(rank) {
				b.local = append(b.local, rank)
			}
			b.nodes = append(b.nodes, s.Ranks[rank].Node)
		}
		slices.Sort(b.nodes)
		b.nodes = slices.Compact(b.nodes)
	}
	s.barriers[name] = b
	return b
}

// checkBarrier reports, once, if the ranks in a barrier wait for one of this node that has exited.
func (s *Server) checkBarrier(sp *space, b *barrier) {
	if len(b.arrived) == 0 || b.reported {
		return
	}
	for _, rank := range b.local {
		if sp.ended[rank] && b.arrived[rank] == nil {
			b.reported = true
			s.node.Stuck(sp.procs(b.arrived), sp.Proc(rank))
			return
		}
	}
}

var errEntersTwice = malformed("it enters a barrier in which it already waits")

// barrier has the rank wait in a barrier. The reply is what text returns at the end, for the error if it failed.
func (c *session) barrier(b *barrier, text func(err error) string) (string, error) {
	s, sp := c.server, c.space
	if b.arrived[c.p.Rank] != nil || b.crossing[c.p.Rank] != nil {
		return "", errEntersTwice
	}
	b.arrived[c.p.Rank] = func(err error) { c.replyLater(text(err)) }
	if len(b.arrived) < len(b.local) {
		s.checkBarrier(sp, b)
		return "", nil
	}
	b.round++
	b.arrived, b.crossing = map[int]func(error){}, b.arrived
	if len(b.nodes) > 1 {
		s.cfg.Exchange.Fence(sp.fence(b), func(blobs [][]byte, err error) { s.fenceDone(sp, b, blobs, err) })
		return "", nil
	}
	if b.members == nil {
		sp.markShared()
	}
	sp.endRound(b, nil)
	return "", nil
}

// leaveBarriers takes the rank's program, which has ended, out of the barriers in which it waits for others here, so
// that the rank's next program may enter them. A round that other nodes know of goes on.
func (c *session) leaveBarriers() {
	s := c.space
	for name, b := range s.barriers {
		if b.arrived[c.p.Rank] == nil {
			continue
		}
		delete(b.arrived, c.p.Rank)
		c.pending--
		if b.members != nil && len(b.arrived)+len(b.crossing) == 0 {
			delete(s.barriers, name)
			s.usage(b.owner).groups--
		}
	}
}

// fence returns this node's part in a round. The barrier of a group carries the fresh pairs, too; they stay fresh for
// the nodes that are not in it.
func (s *space) fence(b *barrier) exchange.Fence {
	f := exchange.Fence{ID: "pmi/" + s.Name + "/" + b.name + "/" + strconv.Itoa(b.round), Nodes: b.nodes, Blob: s.pack()}
	for _, rank := range b.members {
		f.Members = append(f.Members, s.Proc(rank))
	}
	if b.members == nil {
		f.Members = []world.Proc{s.Proc(world.AllRanks)}
		b.sentKeys = s.markShared()
	}
	return f
}

// fenceDone ends a round over several nodes. If a rank has exited, a node is lost or the job ends, the ranks here go on
// waiting: whoever runs the job knows, and can say more than an MPI library. They get every other error.
func (s *Server) fenceDone(sp *space, b *barrier, blobs [][]byte, err error) {
	s.node.Lock()
	defer s.node.Unlock()
	for i := 0; i < len(blobs) && err == nil; i++ {
		err = sp.merge(blobs[i])
	}
	waiting := sp.procs(b.crossing)
	if exited, ok := errors.AsType[*exchange.ExitedError](err); ok {
		s.node.Stuck(waiting, exited.Missing)
		return
	}
	if errors.Is(err, exchange.ErrNodeLost) || errors.Is(err, exchange.ErrClosed) {
		return
	}
	if err != nil {
		sp.markFresh(b.sentKeys)
		s.node.Say(waiting[0], "PMI: a barrier with other nodes failed: "+err.Error())
	}
	b.sentKeys = nil
	sp.endRound(b, err)
}

// endRound releases the ranks in a barrier. A group's barrier is dropped, since programs may name a new group each
// time; its rounds then count from the beginning on all nodes.
func (s *space) endRound(b *barrier, err error) {
	released := b.crossing
	b.crossing = nil
	if b.members != nil {
		delete(s.barriers, b.name)
		s.usage(b.owner).groups--
	}
	for _, done := range released {
		done(err)
	}
}

var errGroups = fmt.Errorf("more than %d barriers are in progress", maxGroups)

// group returns the barrier of a group: "WORLD", "NODE" (the ranks of this one's host) or a list of ranks, and a tag
// after a colon. Each tag has a barrier of its own.
func (s *space) group(rank int, text string) (b *barrier, tag string, err error) {
	group, tag, _ := strings.Cut(text, ":")
	members, err := s.members(rank, group)
	if err != nil {
		return nil, "", err
	}
	name := groupName(members, tag)
	if b = s.barriers[name]; b != nil {
		return b, tag, nil
	}
	u := s.usage(rank)
	if u.groups >= maxGroups {
		return nil, "", errGroups
	}
	u.groups++
	b = s.newBarrier(name, members)
	b.owner = rank
	return b, tag, nil
}

// members returns the ranks of a group that includes rank, ascending.
func (s *space) members(rank int, group string) ([]int, error) {
	var list []int
	switch group {
	case "WORLD":
		for r := range s.Ranks {
			list = append(list, r)
		}
	case "NODE":
		list = s.ByHost[s.Ranks[rank].Host]
	default:
		for piece := range strings.SplitSeq(group, ",") {
			n, err := strconv.Atoi(piece)
			if err != nil || !s.Has(n) || len(list) > len(s.Ranks) {
				return nil, malformed("a barrier of the group %s: use WORLD, NODE or a list of the %d ranks", printable(group),
					len(s.Ranks))
			}
			list = append(list, n)
		}
		slices.Sort(list)
		list = slices.Compact(list)
	}
	if !slices.Contains(list, rank) {
		return nil, malformed("a barrier of the group %s, of which it is not a member", printable(group))
	}
	return list, nil
}

// groupName names a group by its ranks, as ranges, and the tag; by a digest of that if it is long.
func groupName(members []int, tag string) string {
	var b strings.Builder
	for i := 0; i < len(members); {
		j := i
		for j+1 < len(members) && members[j+1] == members[j]+1 {
			j++
		}
		b.WriteString(strconv.Itoa(members[i]) + "-" + strconv.Itoa(members[j]) + ",")
		i = j + 1
	}
	b.WriteString(tag)
	if b.Len() <= 64 {
		return b.String()
	}
	digest := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(digest[:])
}
