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

// barrier is one that ranks of a world come to, again and again. The server's mutex protects it.
type barrier struct {
	// name tells it from others of the world.
	name string
	// members are its ranks, ascending; nil: all of the world. local are those of this
	// node, nodes those of all.
	members, local, nodes []int
	// by is the rank of this node that named the group first, on whose account it is.
	by int

	round int // how often this node has come
	// brought are the fresh keys that went along with the round under way, of a barrier of all.
	brought []string
	told    bool // the launcher knows that it waits in vain
	// came are the ranks here that wait for others here, away those that wait for other
	// nodes, each with what lets it go on, or says that it failed.
	came, away map[int]func(error)
}

// newBarrier is the barrier of some ranks, which ascend; nil: of all.
func (s *space) newBarrier(name string, members []int) *barrier {
	b := &barrier{name: name, members: members, came: map[int]func(error){}}
	for rank := range s.w.Ranks {
		if _, in := slices.BinarySearch(members, rank); !in && members != nil {
			continue
		}
		at := s.w.Ranks[rank].Node
		if b.nodes = append(b.nodes, at); at == s.node {
			b.local = append(b.local, rank)
		}
	}
	slices.Sort(b.nodes)
	b.nodes = slices.Compact(b.nodes)
	s.barriers[name] = b
	return b
}

// waits says whether a rank has come and is not let go yet.
func (b *barrier) waits(rank int) bool { return b.came[rank] != nil || b.away[rank] != nil }

// checkStuck tells the launcher, once, if those that came wait for one of this node that never will.
func (s *Server) checkStuck(sp *space, b *barrier) {
	if len(b.came) == 0 || b.told {
		return
	}
	for _, rank := range b.local {
		if sp.ended[rank] && b.came[rank] == nil {
			b.told = true
			s.stuck(sp.procs(b.came), sp.proc(rank))
			return
		}
	}
}

// stuck tells the launcher of ranks that wait for one which will never come.
func (s *Server) stuck(waiting []world.Proc, missing world.Proc) {
	s.tell(func() { s.cfg.Launcher.Stuck(waiting, missing) })
}

// errComesTwice is a rank that comes to a barrier which it waits in.
var errComesTwice = malformed("it comes to a barrier again before it was let go")

// barrier has the rank wait in a barrier until all have come, or it is known that this cannot
// be. Then it hears what text gives, with the error if that failed.
func (c *session) barrier(b *barrier, text func(err error) string) (string, error) {
	s, sp := c.server, c.space
	if b.waits(c.p.Rank) {
		return "", errComesTwice
	}
	b.came[c.p.Rank] = func(err error) { c.answerLater(text(err)) }
	if len(b.came) < len(b.local) {
		s.checkStuck(sp, b)
		return "", nil
	}
	b.round++
	b.came, b.away = map[int]func(error){}, b.came
	if len(b.nodes) > 1 {
		s.cfg.Plane.Fence(sp.fence(b), func(blobs [][]byte, err error) { s.met(sp, b, blobs, err) })
		return "", nil
	}
	if b.members == nil {
		sp.published()
	}
	sp.letGo(b, nil)
	return "", nil
}

// fence is this node's part in the barrier's round. Barriers of some ranks only carry the
// new pairs, too; these go again to those who were not there.
func (s *space) fence(b *barrier) exchange.Fence {
	f := exchange.Fence{ID: "pmi/" + s.w.Name + "/" + b.name + "/" + strconv.Itoa(b.round), Nodes: b.nodes, Blob: s.pack()}
	for _, rank := range b.members {
		f.Members = append(f.Members, s.proc(rank))
	}
	if b.members == nil {
		f.Members = []world.Proc{s.proc(world.AllRanks)}
		b.brought = s.published()
	}
	return f
}

// met ends a round: all nodes have come, or never will. Where that is since a rank has
// ended, its node is lost or the job ends, those here go on waiting: whoever runs the job
// knows, and says more than an MPI library could. Of all else they are told.
func (s *Server) met(sp *space, b *barrier, blobs [][]byte, err error) {
	s.mu.Lock()
	defer s.unlock()
	for i := 0; i < len(blobs) && err == nil; i++ {
		err = sp.merge(blobs[i])
	}
	var left *exchange.LeftError
	switch waiting := sp.procs(b.away); {
	case errors.As(err, &left):
		s.stuck(waiting, left.Missing)
		return
	case errors.Is(err, exchange.ErrNodeLost), errors.Is(err, exchange.ErrClosed):
		return
	case err != nil:
		sp.unpublish(b.brought)
		s.say(waiting[0], "PMI: a barrier with other nodes failed: "+err.Error())
	}
	b.brought = nil
	sp.letGo(b, err)
}

// letGo ends a round. A group's barrier that all have left is forgotten: programs may name a new group each
// time. Its next round has the same number on all nodes again.
func (s *space) letGo(b *barrier, err error) {
	released := b.away
	b.away = nil
	if b.members != nil {
		delete(s.barriers, b.name)
		s.usage(b.by).groups--
	}
	for _, leave := range released {
		leave(err)
	}
}

// errGroups is a rank that has others wait in too many groups, which it has named first.
var errGroups = fmt.Errorf("barriers of more than %d groups are under way", maxGroups)

// group finds the barrier of a group: "WORLD", "NODE" (the ranks of this one's host) or
// a list of ranks, and a tag behind a colon. It is another one for each tag.
func (s *space) group(rank int, text string) (b *barrier, tag string, err error) {
	who, tag, _ := strings.Cut(text, ":")
	members, err := s.members(rank, who)
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
	b.by = rank
	return b, tag, nil
}

// members are the ranks of a group, ascending, rank among them.
func (s *space) members(rank int, who string) ([]int, error) {
	var list []int
	for r := range s.w.Ranks {
		if who == "WORLD" || who == "NODE" && s.w.Ranks[r].Host == s.w.Ranks[rank].Host {
			list = append(list, r)
		}
	}
	if list == nil {
		for piece := range strings.SplitSeq(who, ",") {
			n, err := strconv.Atoi(piece)
			if err != nil || n < 0 || n >= len(s.w.Ranks) || len(list) > len(s.w.Ranks) {
				return nil, malformed("a barrier of the group %s, which is neither WORLD, NODE nor ranks of %d", printable(who),
					len(s.w.Ranks))
			}
			list = append(list, n)
		}
		slices.Sort(list)
		list = slices.Compact(list)
	}
	if !slices.Contains(list, rank) {
		return nil, malformed("a barrier of the group %s, of which it is no member", printable(who))
	}
	return list, nil
}

// groupName tells a group from others: ranks as ranges, and the tag, or a digest of both.
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
