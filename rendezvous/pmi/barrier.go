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

	round int  // how often this node has come
	told  bool // the launcher knows that it waits in vain
	// came are the ranks here that wait for others here, away those that wait for other
	// nodes, each with what lets it go on.
	came, away map[int]func()
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

func procs(w *world.World, ranks map[int]func()) []world.Proc {
	var list []world.Proc
	for rank := range ranks {
		list = append(list, world.Proc{World: w.Name, Rank: rank})
	}
	slices.SortFunc(list, func(a, b world.Proc) int { return a.Rank - b.Rank })
	return list
}

// errComesTwice is a rank that comes to a barrier which it waits in.
var errComesTwice = malformed("it comes to a barrier again before it was let go")

// come has a rank wait in a barrier until all have come; then leave is called.
func (s *Server) come(sp *space, b *barrier, rank int, leave func()) error {
	s.mu.Lock()
	if b.waits(rank) {
		s.mu.Unlock()
		return errComesTwice
	}
	if b.came == nil {
		b.came = map[int]func(){}
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
		letGo(released)
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
		s.published()
	}
	return f
}

// met ends a round: all nodes have come, or never will.
func (s *Server) met(sp *space, b *barrier, blobs [][]byte, err error) {
	s.mu.Lock()
	for i := 0; i < len(blobs) && err == nil; i++ {
		err = sp.merge(blobs[i])
	}
	released := b.away
	waiting := procs(sp.w, released)
	if err == nil {
		b.away = nil
		sp.forget(b)
	}
	s.mu.Unlock()
	// Without success they go on waiting until the job is ended.
	var left *exchange.LeftError
	switch {
	case err == nil:
		letGo(released)
	case errors.As(err, &left):
		s.sayStuck(&stuck{waiting, left.Missing})
	case !errors.Is(err, exchange.ErrClosed) && len(waiting) > 0:
		s.cfg.Launcher.Broken(waiting[0], fmt.Errorf("PMI: its barrier with other nodes: %w", err))
	}
}

// forget drops a group's barrier that all have left: programs may name a new group each
// time. Its next round has the same number on all nodes again.
func (s *space) forget(b *barrier) {
	if s.groups[b.name] == b {
		delete(s.groups, b.name)
	}
}

func letGo(ranks map[int]func()) {
	for _, leave := range ranks {
		leave()
	}
}

func (s *Server) sayStuck(in *stuck) {
	if in != nil {
		s.cfg.Launcher.Stuck(in.waiting, in.missing)
	}
}

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
	if len(sp.groups) >= maxGroups {
		return nil, "", malformed("barriers of more than %d groups", maxGroups)
	}
	b = &barrier{name: name, members: members, node: s.cfg.Node}
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
				return nil, malformed("a barrier of the group %s, which is neither WORLD, NODE nor ranks of %d", printable(who), len(s.w.Ranks))
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
