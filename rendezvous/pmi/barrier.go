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

// barrier is one that ranks of a world come to, again and again.
type barrier struct {
	// name tells it from others of the world.
	name string
	// members are its ranks, ascending; nil: all of the world. local are those of this
	// node, nodes those of all.
	members, local, nodes []int
	node                  int
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

// waits says whether a rank has come and is not let go yet.
func (b *barrier) waits(rank int) bool { return b.came[rank] != nil || b.away[rank] != nil }

// stuck is who waits for one that will never come.
type stuck struct {
	waiting []world.Proc
	missing world.Proc
}

// stuckFor finds whom those that came wait for in vain, if that is so and new.
func (b *barrier) stuckFor(s *space) *stuck {
	if len(b.came) == 0 || b.told {
		return nil
	}
	for _, rank := range b.local {
		if s.ended[rank] && b.came[rank] == nil {
			b.told = true
			return &stuck{procs(s.w, b.came), world.Proc{World: s.w.Name, Rank: rank}}
		}
	}
	return nil
}

func procs(w *world.World, ranks map[int]func(error)) []world.Proc {
	var list []world.Proc
	for rank := range ranks {
		list = append(list, world.Proc{World: w.Name, Rank: rank})
	}
	slices.SortFunc(list, func(a, b world.Proc) int { return a.Rank - b.Rank })
	return list
}

// errComesTwice is a rank that comes to a barrier which it waits in.
var errComesTwice = malformed("it comes to a barrier again before it was let go")

// come has a rank wait in a barrier until all have come, or it is known that this cannot
// be; then leave is called.
func (s *Server) come(sp *space, b *barrier, rank int, leave func(error)) error {
	s.mu.Lock()
	if b.waits(rank) {
		s.mu.Unlock()
		return errComesTwice
	}
	if b.came == nil {
		b.came = map[int]func(error){}
	}
	b.came[rank] = leave
	if len(b.came) < len(b.local) {
		in := b.stuckFor(sp)
		s.mu.Unlock()
		s.sayStuck(in)
		return nil
	}
	released := b.came
	b.came = nil
	b.round++
	if len(b.nodes) == 1 {
		if b.members == nil {
			sp.published()
		}
		sp.forget(b)
		s.mu.Unlock()
		letGo(released, nil)
		return nil
	}
	b.away = released
	fence := sp.fence(b)
	s.mu.Unlock()
	s.cfg.Plane.Fence(fence, func(blobs [][]byte, err error) { s.met(sp, b, blobs, err) })
	return nil
}

// fence is this node's part in the barrier's round. Barriers of some ranks only carry the
// new pairs, too; these go again to those who were not there.
func (s *space) fence(b *barrier) exchange.Fence {
	f := exchange.Fence{ID: "pmi/" + s.w.Name + "/" + b.name + "/" + strconv.Itoa(b.round), Nodes: b.nodes, Blob: s.pack()}
	if b.members == nil {
		f.Members = []world.Proc{{World: s.w.Name, Rank: world.AllRanks}}
	}
	for _, rank := range b.members {
		f.Members = append(f.Members, world.Proc{World: s.w.Name, Rank: rank})
	}
	if b.members == nil {
		b.brought = s.published()
	}
	return f
}

// met ends a round: all nodes have come, or never will. Where that is since a rank has
// ended, its node is lost or the job ends, those here go on waiting: whoever runs the job
// knows, and says more than an MPI library could. Of all else they are told.
func (s *Server) met(sp *space, b *barrier, blobs [][]byte, err error) {
	var left *exchange.LeftError
	s.mu.Lock()
	for i := 0; i < len(blobs) && err == nil; i++ {
		err = sp.merge(blobs[i])
	}
	released, waiting := b.away, procs(sp.w, b.away)
	isOver := errors.As(err, &left) || errors.Is(err, exchange.ErrNodeLost) || errors.Is(err, exchange.ErrClosed)
	if !isOver {
		b.away = nil
		if err != nil {
			sp.unpublish(b.brought)
		}
		b.brought = nil
		sp.forget(b)
	}
	s.mu.Unlock()
	switch {
	case left != nil:
		s.sayStuck(&stuck{waiting, left.Missing})
	case !isOver:
		if err != nil {
			s.cfg.Launcher.Say(waiting[0], "PMI: a barrier with other nodes failed: "+err.Error())
		}
		letGo(released, err)
	}
}

// forget drops a group's barrier that all have left: programs may name a new group each
// time. Its next round has the same number on all nodes again.
func (s *space) forget(b *barrier) {
	if s.groups[b.name] == b {
		delete(s.groups, b.name)
		s.usage(b.by).groups--
	}
}

func letGo(ranks map[int]func(error), err error) {
	for _, leave := range ranks {
		leave(err)
	}
}

func (s *Server) sayStuck(in *stuck) {
	if in != nil {
		s.cfg.Launcher.Stuck(in.waiting, in.missing)
	}
}

// errGroups is a rank that has others wait in too many groups, which it has named first.
var errGroups = fmt.Errorf("barriers of more than %d groups are under way", maxGroups)

// group finds the barrier of a group: "WORLD", "NODE" (the ranks of this one's host) or
// a list of ranks, and a tag behind a colon. It is another one for each tag.
func (s *Server) group(sp *space, rank int, text string) (b *barrier, tag string, err error) {
	who, tag, _ := strings.Cut(text, ":")
	members, err := sp.members(rank, who)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := groupName(members, tag)
	if b = sp.groups[name]; b != nil {
		return b, tag, nil
	}
	u := sp.usage(rank)
	if u.groups >= maxGroups {
		return nil, "", errGroups
	}
	u.groups++
	b = &barrier{name: name, members: members, node: s.cfg.Node, by: rank}
	for _, m := range members {
		at := sp.w.Ranks[m].Node
		if at == b.node {
			b.local = append(b.local, m)
		}
		b.nodes = append(b.nodes, at)
	}
	slices.Sort(b.nodes)
	b.nodes = slices.Compact(b.nodes)
	sp.groups[name] = b
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
